"""Users, and the tokens with which programs act for them."""
