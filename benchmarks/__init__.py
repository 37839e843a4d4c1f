"""Speed and cost, each claim measured against its own baseline in one run, since machines are noisy. `make bench` runs them all."""
