"""How a policy is evolved."""
