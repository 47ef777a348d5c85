"""The browser that pages are looked at with, None if there is none."""

import shutil
from pathlib import Path


def find_browser() -> str | None:
    """A Chromium on the path, or the one that playwright installed for itself."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if found := shutil.which(name):
            return found
    try:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            own = playwright.chromium.executable_path
    except Exception:  # playwright itself is missing or broken: there is no browser to be had from it
        return None
    return own if Path(own).exists() else None


BROWSER = find_browser()
