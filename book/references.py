"""A Sphinx extension: entries of a list of references are its items to a screen reader too; docutils gives them a role ARIA dropped."""


def setup(app):
    app.connect("html-page-context", as_items)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def as_items(app, name, template, context, doctree):
    if body := context.get("body"):
        context["body"] = body.replace(' role="doc-biblioentry"', ' role="listitem"')
