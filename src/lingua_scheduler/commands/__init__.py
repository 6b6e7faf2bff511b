"""The work behind those commands that print more than a line; the rest of the house never imports them."""
