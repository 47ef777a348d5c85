"""Methods, model layer and statistics of the companion. One file per idea; see the API section of the README."""
