"""The documents that the API sends, as pydantic models: OpenAPI is made from them.

Answers are not validated against them at run time: a job is sent as JSON that is ready already.
tests/test_openapi.py compares real answers with these models.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")


class JobState(StrEnum):
    """The state of a job. `parked`: three workers died over it, so it is not tried again."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    PARKED = "parked"


class Estimate(_Document):
    """What the job is expected to need, in all."""

    seconds: float = Field(description="Seconds of the solve on this machine.")
    memory_gb: float = Field(description="GB of memory, at its most.")


class Progress(_Document):
    """The state of the solve, and of the result once the job is done."""

    iteration: int | None = Field(description="Steps of the solver; null for closed forms.")
    loss_km: float = Field(description="Expected quality loss of the best mechanism so far.")
    gap: float | None = Field(
        description="Largest possible relative distance to the optimum; null if not known."
    )
    elapsed_s: float = Field(description="Seconds since the start of the solve.")
    solver: str | None = Field(None, description="The solver that was used, once done.")
    stopped: str | None = Field(None, description="Why the solver stopped early, once done.")


class JobError(_Document):
    """Why a job failed."""

    code: str = Field(description="The kind of error, for programs.")
    message: str = Field(description="What must hold, for people.")
    field: str | None = Field(None, description="The part of the recipe, like `prior[3]`.")


class Job(_Document):
    """A mechanism that is being built, or was."""

    id: str = Field(description="Needed for every other request about this job.")
    state: JobState = Field(description="How far the job is.")
    created: datetime = Field(description="When the job was accepted, in UTC.")
    places: int = Field(description="Number of places.")
    outputs: int = Field(
        description="Number of places that may be reported; about, if they are yet to be chosen."
    )
    method: str = Field(description="The construction method of the recipe.")
    guarantee: str = Field(
        "places", description="Between which points it holds: `places` or `everywhere`."
    )
    epsilon_per_km: float = Field(description="The privacy level.")
    estimate: Estimate = Field(description="What the job is expected to need, in all.")
    progress: Progress | None = Field(None, description="The state of the solve.")
    error: JobError | None = Field(None, description="Why the job failed or is parked.")
    note: str | None = Field(None, description="What the job waits for, if it waits.")


class ErrorDetail(JobError):  # noqa: N818
    """One error."""

    request_id: str | None = Field(None, description="The id of the request in the log.")


class Error(_Document):
    """The body of every answer with an error."""

    error: ErrorDetail


class Health(_Document):
    """The service can answer."""

    status: Literal["alive"]


class Readiness(_Document):
    """The service can take jobs and build them."""

    status: Literal["ready"]


class AboutLimits(_Document):
    """The largest recipe that the service takes."""

    places: int
    body_bytes: int
    time_limit_s: float
    memory_gb: float


class Tiles(_Document):
    """The background map of the page: tiles, or a map file of whereish map."""

    url: str
    kind: Literal["pmtiles", "raster", "geojson"]
    attribution: str


class About(_Document):
    """Version and limits of the service."""

    version: str
    key_needed: bool = Field(description="Whether requests need a key.")
    limits: AboutLimits
    tiles: Tiles | None = None
