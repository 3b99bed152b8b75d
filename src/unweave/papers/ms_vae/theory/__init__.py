"""Independence of two codes, given images of one or of two stages, counted out."""
