"""The client of the model hub: asks it which services there are, and trusts neither it nor its name."""
