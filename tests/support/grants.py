"""Keys, signers and a verifier, as an installation has them, in memory."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from minara.type.v1 import turn_context_pb2 as context_pb
from minara_core.grant import GrantType
from minara_core.taxonomy import Origin, PermissionTier, Scope
from minara_runtime import keys
from minara_runtime.convert_enums import ORIGIN
from minara_runtime.grants import GrantSigner, GrantVerifier
from support.clock import FixedClock
from support.ids import SequentialIds

USER = "local"
SESSION = "session-1"
TURN = "turn-1"
TOOL_SETS = ("read", "trade")
LIFETIME_OF_A_RUN = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The signers of one installation and the verifier its services share."""

    clock: FixedClock
    gateway: GrantSigner
    confirmation: GrantSigner
    orchestrator: GrantSigner
    verifier: GrantVerifier

    def turn_grant(
        self,
        *,
        origin: Origin = Origin.HTTP,
        tool_sets: Iterable[str] = TOOL_SETS,
        ceiling: PermissionTier = PermissionTier.ALWAYS_CONFIRM,
        message: str | None = "hello",
    ) -> str:
        return self.gateway.turn(
            user_id=USER,
            session_id=SESSION,
            turn_id=TURN,
            origin=origin,
            tool_sets=tool_sets,
            ceiling=ceiling,
            message=message,
        )

    def request_grant(self, *scopes: Scope) -> str:
        return self.gateway.request(user_id=USER, scopes=scopes or (Scope.READ,))

    def run_grant(self, *, origin: Origin = Origin.CRON) -> str:
        """One that is due: countersigned by the scheduler."""
        run = self.run_grant_alone(origin=origin)
        return self.orchestrator.countersigned(run, service="orchestrator", slot="slot-1")

    def run_grant_alone(self, *, origin: Origin = Origin.CRON) -> str:
        return self.gateway.sign(
            GrantType.RUN,
            subject=USER,
            lifetime=LIFETIME_OF_A_RUN,
            definition_hash="0" * 64,
            revocation_id="run-1",
            origin=origin.value,
            tool_sets=TOOL_SETS,
        )

    def confirmation_grant(self) -> str:
        return self.confirmation.confirmation(
            user_id=USER, pending_action_id="action-1", action_hash="0" * 64, decision="confirm"
        )

    def service_grant(self, *methods: str) -> str:
        return self.orchestrator.service(service="orchestrator", methods=methods)


def a_context(*, grant: str, origin: Origin = Origin.HTTP) -> context_pb.TurnContext:
    """The context that the grants made here cover."""
    return context_pb.TurnContext(
        user_id=USER,
        session_id=SESSION,
        turn_id=TURN,
        origin=ORIGIN.to_pb(origin),
        allowed_tool_sets=TOOL_SETS,
        grant=grant,
    )


def an_installation(*believed: keys.BelievedKey) -> Installation:
    """A fresh installation, believing also the given keys."""
    clock = FixedClock()
    ids = SequentialIds("grant")
    gateway = keys.generate("gateway")
    confirmation = keys.generate("gateway-confirmation")
    orchestrator = keys.generate("orchestrator")
    allow_list = keys.PublicKeys(
        (
            keys.gateway_key(gateway),
            keys.confirmation_key(confirmation),
            keys.service_key(orchestrator, "orchestrator"),
            *believed,
        )
    )
    return Installation(
        clock=clock,
        gateway=GrantSigner(gateway, clock, ids),
        confirmation=GrantSigner(confirmation, clock, ids),
        orchestrator=GrantSigner(orchestrator, clock, ids),
        verifier=GrantVerifier(allow_list, clock),
    )
