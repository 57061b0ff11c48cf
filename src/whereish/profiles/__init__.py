"""WHO: traces from files, what is counted of them, and profiles: places with a prior."""

from whereish.profiles.cache import cache_folder, forget
from whereish.profiles.city import embedded_city
from whereish.profiles.known import KnownPlaces, regions_of
from whereish.profiles.many import People, Person
from whereish.profiles.person import (
    RADIUS_KM,
    Portrait,
    area_cells,
    check_smooth,
    find_middle,
    nearby,
    personal_profile,
    portrait,
    smoothed,
)
from whereish.profiles.pipeline import (
    Cohort,
    busiest_window,
    enough_points,
    inside,
    paper_profiles,
    popular_regions,
    region_priors,
    region_scores,
)
from whereish.profiles.profile import Backdrop, Profile, blur_prior, check_blur
from whereish.profiles.recognise import KINDS
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
from whereish.profiles.rows import Funnel
from whereish.profiles.synthetic import SyntheticCity
from whereish.profiles.table import (
    check_profile_file,
    check_profiles_target,
    read_profile,
    write_profile,
    write_profiles,
)
from whereish.profiles.traces import Traces, check_zone, open_traces
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

__all__ = [
    "ALL_DAY",
    "COUNTS",
    "ELSEWHERE",
    "KINDS",
    "PAPER_CELL_KM",
    "PERIODS",
    "RADIUS_KM",
    "Backdrop",
    "Cohort",
    "DegreeTiles",
    "Districts",
    "Funnel",
    "H3Cells",
    "KnownPlaces",
    "People",
    "Person",
    "Portrait",
    "Profile",
    "Regions",
    "SquareCells",
    "Step",
    "SyntheticCity",
    "Traces",
    "Visits",
    "area_cells",
    "as_cell_km",
    "as_period",
    "blur_prior",
    "busiest_window",
    "cache_folder",
    "check_blur",
    "check_profile_file",
    "check_profiles_target",
    "check_smooth",
    "check_zone",
    "count_visits",
    "embedded_city",
    "enough_points",
    "find_middle",
    "forget",
    "inside",
    "nearby",
    "open_traces",
    "paper_profiles",
    "personal_profile",
    "popular_regions",
    "portrait",
    "read_profile",
    "region_priors",
    "region_scores",
    "regions_of",
    "smoothed",
    "traces_by_file",
    "write_profile",
    "write_profiles",
]
