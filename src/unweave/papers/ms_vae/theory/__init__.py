"""Independence of two codes given the images of one or two stages, in discrete examples."""
