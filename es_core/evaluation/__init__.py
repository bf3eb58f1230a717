"""The score of a policy on unseen starts, and replays of single episodes."""
