"""Tells the reader of docstrings, griffe, that our `Example:` is what it calls `Examples:`."""

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Code under `Example:` is then shown as code."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        del kwargs
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
