"""ApiVersions: return the broker's APIs with their versions, and the cluster's features. A client's first request.

A request in a version that the broker does not support is answered in version 0, with UNSUPPORTED_VERSION and the range
of this API alone (KIP-511). The response's header never has a tag section: see kwire.protocol.framing.

    1  throttle time
    2  the response is sent before the throttle begins
    3  flexible; name and version of the client's software (KIP-511); features (KIP-584)
    4  a supported feature's lowest version may be 0
"""

from kwire.protocol.primitives import boolean, int16, int32, int64, string
from kwire.protocol.schema import field, message, struct
from kwire.protocol.wire import EARLY_TAGS_MAX


@message(key=18, kind="request", versions="0-4", flexible="3+", tags_max=EARLY_TAGS_MAX)
class ApiVersionsRequest:
    client_software_name: string = field("3+", ignorable=True)
    client_software_version: string = field("3+", ignorable=True)


@struct
class ApiVersion:
    api_key: int16 = field("0+")
    min_version: int16 = field("0+")
    max_version: int16 = field("0+")


@struct
class SupportedFeatureKey:
    name: string = field("3+")
    min_version: int16 = field("3+")
    max_version: int16 = field("3+")


@struct
class FinalizedFeatureKey:
    name: string = field("3+")
    max_version_level: int16 = field("3+")
    min_version_level: int16 = field("3+")


@message(key=18, kind="response", versions="0-4", flexible="3+")
class ApiVersionsResponse:
    error_code: int16 = field("0+")
    api_keys: list[ApiVersion] = field("0+")
    throttle_time_ms: int32 = field("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0, tagged="3+", ignorable=True)
    finalized_features_epoch: int64 = field("3+", tag=1, tagged="3+", default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2, tagged="3+", ignorable=True)
    zk_migration_ready: boolean = field("3+", tag=3, tagged="3+", ignorable=True)
