# profiles.mk - the simulated driver's profiles: which names each one exports. See tests/sim/README.md.
