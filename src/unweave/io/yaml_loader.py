"""The YAML loader for files that a stranger may have written."""

import yaml

__all__ = ["BoundedLoader"]

MOST_MERGED = 100_000
MERGE = "tag:yaml.org,2002:merge"


class BoundedLoader(yaml.SafeLoader):  # type: ignore[misc] # PyYAML has no types
    """PyYAML's safe loader with a bound on merge keys (`<<: [*a, *a]`).

    Merging copies all entries, so that a few lines of mappings that merge each other would
    otherwise stand for billions of entries before any of them is seen.
    """

    merged = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge what the merge keys of a mapping name into it."""
        for key, value in node.value:
            if key.tag != MERGE:
                continue
            for part in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if isinstance(part, yaml.MappingNode):
                    self.flatten_mapping(part)
                    self.merged += len(part.value)
            if self.merged > MOST_MERGED:
                raise yaml.YAMLError(f"it merges more than {MOST_MERGED:,} entries")
        super().flatten_mapping(node)
