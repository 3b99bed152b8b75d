"""Pictures of data and models."""

from unweave.show.contact_sheet import contact_sheet

__all__ = ["contact_sheet"]
