import signal

from hypothesis import HealthCheck, settings

# Solving a program takes as long as it takes; the machine is shared.
settings.register_profile(
    "whereish",
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    derandomize=True,
)
settings.load_profile("whereish")

# A run in the background of a script is started with Ctrl-C ignored, and the tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)
