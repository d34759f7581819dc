"""UpdateFeatures: raise or lower feature levels, either all that are named or none (KIP-584)."""

from __future__ import annotations

from kwire.cluster.controller.plans.features import FeatureUpdate, UpgradeType
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kwire.server.requests.api import Api
from kwire.server.requests.services import ControllerContext

SINGLE_RESULTS_UNTIL = 1


async def handle_update_features(request: UpdateFeaturesRequest, context: ControllerContext) -> UpdateFeaturesResponse:
    updates = [
        FeatureUpdate(
            name=update.feature,
            level=update.max_version_level,
            # Kafka's controller treats version 0 as an upgrade, whatever its allow_downgrade says.
            upgrade_type=update.upgrade_type if context.version >= 1 else UpgradeType.UPGRADE,
        )
        for update in request.feature_updates
    ]
    try:
        if not context.allows_cluster():
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        services = context.services
        await services.controller.update_features(
            updates,
            controller_id=services.node_id,
            validate_only=context.version >= 1 and request.validate_only,
        )
    except KafkaError as error:
        return reject(request, error)
    response = UpdateFeaturesResponse(error_message=None)
    if context.version <= SINGLE_RESULTS_UNTIL:
        response.results = [UpdatableFeatureResult(feature=each.name, error_message="NONE") for each in updates]
    return response


def reject(request: UpdateFeaturesRequest, error: KafkaError) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=error.code, error_message=error.message or error.code.meaning)


API = Api(request=UpdateFeaturesRequest, response=UpdateFeaturesResponse, handle=handle_update_features)
