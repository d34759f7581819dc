"""UpdateFeatures: set the finalized version levels of features, such as metadata.version (KIP-584).

1  upgrade type in place of a downgrade flag; validation only
2  no results of single features: the request succeeds or fails as a whole
"""

from kwire.protocol.primitives import boolean, int8, int16, int32, string
from kwire.protocol.schema import field, message, struct


@struct
class FeatureUpdateKey:
    feature: string = field("0+")
    max_version_level: int16 = field("0+")
    """Values below 1 remove the feature."""
    allow_downgrade: boolean = field("0")
    upgrade_type: int8 = field("1+", default=1)
    """1 upgrade only, 2 safe downgrade, 3 unsafe downgrade."""


@message(key=57, kind="request", elements_max=1000, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    timeout_ms: int32 = field("0+", default=60000)
    feature_updates: list[FeatureUpdateKey] = field("0+")
    validate_only: boolean = field("1+")


@struct
class UpdatableFeatureResult:
    feature: string = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")


@message(key=57, kind="response", versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")
    results: list[UpdatableFeatureResult] = field("0-1", ignorable=True)
