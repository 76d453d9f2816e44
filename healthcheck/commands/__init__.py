"""The commands of `flightcheck`, one file each, loaded only when called."""
