# The environment of `make env` and the built labs in a container: for Docker, for Codespaces (.devcontainer) and for Binder.
#
#   docker build -t rag-companion .
#   docker run --rm -p 8888:8888 rag-companion
#
# pip takes torch from the index it is given; with `--build-arg PIP_EXTRA_INDEX_URL=...`, an index of CPU wheels, the image is smaller.
FROM python:3.11-slim

# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/*

# Binder chooses name and number of the user.
ARG NB_USER=reader
ARG NB_UID=1000
RUN useradd --create-home --uid "$NB_UID" "$NB_USER" \
    && install --directory --owner "$NB_USER" /opt/companion /opt/venv

# The environment lies beside the repository, so that a folder mounted over /opt/companion does not hide it.
ENV MAKEFLAGS="V=/opt/venv" \
    PATH="/opt/venv/bin:$PATH" \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
USER $NB_USER
WORKDIR /opt/companion
COPY --chown=$NB_UID . .
ARG PIP_EXTRA_INDEX_URL
RUN make env && make labs

EXPOSE 8888
CMD ["jupyter", "lab", "--ip=0.0.0.0", "--no-browser"]
