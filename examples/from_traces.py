"""From traces to a mechanism: whose life, which places, what it costs to hide among them."""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import whereish as wh

CELL = (0.7, 0.7)  # km

with tempfile.TemporaryDirectory() as folder:
    # Made-up people, as a GeoLife tree; take a folder of your own GPX tracks instead.
    city = wh.SyntheticCity(users=3, days=30, every_s=60)
    traces = city.write_geolife(Path(folder) / "city")

    me = wh.personal_profile(
        wh.open_traces(traces, users=["001"]), 30, zone=city.zone, cell_km=CELL
    )
    print(f"{me.points} points in {me.days} days; the places cover {me.at_places:.0%} of the time")

    best = wh.optimal(me.profile.places, me.profile.prior, epsilon=1.07)
    print(f"a report is {wh.quality_loss(best, me.profile.prior):.2f} km off on average")

    # What an adversary gains who knows that it is night.
    night = wh.personal_profile(
        wh.open_traces(traces, users=["001"]), 30, zone=city.zone, cell_km=CELL, period="night"
    )
    print(f"at night there are {night.visited} places to be at, all day {me.visited}")

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    me.profile.plot(ax=left)
    night.profile.plot(ax=right)
    left.set_title("all day", loc="left")
    right.set_title("at night", loc="left")
    figure.savefig("from-traces.png", dpi=110)
