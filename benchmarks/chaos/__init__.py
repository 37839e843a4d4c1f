"""A server under load whose workers are killed at random, watched from outside by code that shares nothing with it."""
