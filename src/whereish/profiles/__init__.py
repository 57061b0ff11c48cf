"""WHO: visits counted from traces, and profiles: places with a prior."""

from whereish.profiles.area import area_cells, find_middle, nearby
from whereish.profiles.cohorts import (
    Cohort,
    busiest_window,
    enough_points,
    inside,
    paper_profiles,
    popular_regions,
    region_priors,
    region_scores,
)
from whereish.profiles.defaults import PLACES, RADIUS_KM
from whereish.profiles.embedded_city import embedded_city
from whereish.profiles.group_points import group_points, own_middles
from whereish.profiles.known_places import KnownPlaces, regions_of
from whereish.profiles.movement import (
    MovementModel,
    count_movement,
    load_movement,
    save_movement,
)
from whereish.profiles.people import People, Person
from whereish.profiles.personal import (
    PersonalProfile,
    Portrait,
    check_smooth,
    personal_profile,
    portrait,
    profile_from_visits,
    smoothed,
)
from whereish.profiles.profile import (
    Backdrop,
    Profile,
    VisitedPoints,
    blur_prior,
    check_blur,
)
from whereish.profiles.regions import (
    ELSEWHERE,
    PAPER_CELL_KM,
    DegreeTiles,
    Districts,
    H3Cells,
    Regions,
    SquareCells,
    as_cell_km,
)
from whereish.profiles.synthetic_city import SyntheticCity
from whereish.profiles.tables import read_profile
from whereish.profiles.time_prior import TimeDependentPrior, prior_by_time
from whereish.profiles.visits import (
    ALL_DAY,
    COUNTS,
    PERIODS,
    Step,
    Visits,
    as_period,
    count_visits,
    traces_by_file,
)
from whereish.profiles.writing import (
    check_profile_file,
    check_profiles_target,
    write_profile,
    write_profiles,
)

__all__ = [
    "ALL_DAY", "COUNTS", "ELSEWHERE", "PAPER_CELL_KM", "PERIODS", "PLACES", "RADIUS_KM", "Backdrop",
    "Cohort", "DegreeTiles", "Districts", "H3Cells", "KnownPlaces", "MovementModel", "People",
    "Person", "PersonalProfile", "Portrait", "Profile", "Regions", "SquareCells", "Step",
    "SyntheticCity", "TimeDependentPrior", "VisitedPoints", "Visits", "area_cells", "as_cell_km",
    "as_period",
    "blur_prior", "busiest_window", "check_blur", "check_profile_file", "check_profiles_target",
    "check_smooth", "count_movement", "count_visits", "embedded_city", "enough_points",
    "find_middle", "group_points", "inside", "load_movement", "nearby", "own_middles",
    "paper_profiles", "personal_profile", "popular_regions", "portrait", "prior_by_time",
    "profile_from_visits",
    "read_profile", "region_priors", "region_scores", "regions_of", "save_movement", "smoothed",
    "traces_by_file", "write_profile", "write_profiles",
]  # fmt: skip
