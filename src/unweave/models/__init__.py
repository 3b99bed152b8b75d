"""Trained models: their settings, networks and files, where they are found, and their codes."""
