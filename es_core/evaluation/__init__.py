"""Scores of policies on unseen starts, and replays of single episodes."""
