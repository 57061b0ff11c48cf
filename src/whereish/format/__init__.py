"""KEEP: the file of a mechanism: container, certificate, signature, audit."""

from whereish.format.audit import audit_bytes, audit_file
from whereish.format.certificate import TELLS_PRIOR, certify
from whereish.format.container import digest_of, pack, unpack
from whereish.format.mechanism_file import (
    SUFFIX,
    is_mechanism_file,
    load_mechanism,
    mechanism_bytes,
    save_mechanism,
    without_prior,
)
from whereish.format.metric_file import (
    METRIC_SUFFIX,
    load_metric,
    metric_bytes,
    metric_document,
    save_metric,
)
from whereish.format.signature import new_private_key, public_key_of, signed

__all__ = [
    "METRIC_SUFFIX", "SUFFIX", "TELLS_PRIOR", "audit_bytes", "audit_file", "certify", "digest_of",
    "is_mechanism_file", "load_mechanism", "load_metric", "mechanism_bytes", "metric_bytes",
    "metric_document", "new_private_key", "pack", "public_key_of", "save_mechanism", "save_metric",
    "signed", "unpack", "without_prior",
]  # fmt: skip
