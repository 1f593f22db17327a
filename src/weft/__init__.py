"""weft: everything a model says is one stream of content-block events, and every API is a view of it."""

__version__ = "0.1.0"
