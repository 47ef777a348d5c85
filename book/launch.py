"""The launch buttons of `_config.yml` are off while it names no repository: the theme would stop at the first chapter."""


def setup(app):
    app.connect("config-inited", switch)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def switch(app, config):
    """Without an address no buttons."""
    if not config.html_theme_options.get("repository_url"):
        config.html_theme_options["launch_buttons"] = {}
