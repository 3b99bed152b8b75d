"""Why variational autoencoders find principal axes, and when these are the factors."""
