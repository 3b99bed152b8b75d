"""Griffe extension that treats `Example:` sections of docstrings as `Examples:`."""

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Rename `Example:` to `Examples:`, so that griffe formats the section as code."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        del kwargs
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
