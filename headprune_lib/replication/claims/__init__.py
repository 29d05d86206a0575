"""The paper's claims, the rules that judge them, and the results that decide them."""
