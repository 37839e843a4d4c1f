"""All faults that can be planted, each under a name of its own."""

from tests.planted_faults import (
    faults_of_answers,
    faults_of_loads,
    faults_of_the_watch,
    faults_of_ties,
    faults_of_turns,
)

FAULTS = (
    *faults_of_ties.FAULTS,
    *faults_of_turns.FAULTS,
    *faults_of_answers.FAULTS,
    *faults_of_loads.FAULTS,
    *faults_of_the_watch.FAULTS,
)
