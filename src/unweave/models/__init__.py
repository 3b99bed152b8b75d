"""Trained models: configs, networks, files, lookup, encoding and decoding."""
