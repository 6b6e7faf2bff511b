"""Every instrument of an instance, declared once: name, unit, help, and the values its labels may take."""

from __future__ import annotations

import prometheus_client

from lingua_scheduler import labels
from lingua_scheduler.instruments import AtMost, Declared, OneOf
from lingua_scheduler.slowness import ObservabilityOptions, Slowness

STAGES = ("cut", "wait", "placement", "hop", "node", "delivery")
"""What happens to an utterance between its last word and its answer: see `stage_seconds`."""


class Metrics:
    """The instruments of one instance; each attribute is called like its metric, without the prefix."""

    def __init__(self, options: ObservabilityOptions = ObservabilityOptions()) -> None:  # noqa: B008 frozen
        declared = Declared()
        self.registry = declared.registry
        self._declare_sessions(declared)
        self._declare_results(declared)
        self._declare_rooms(declared)
        self._declare_dispatch(declared)
        self._declare_nodes(declared)
        self._declare_company(declared)
        self._declare_store(declared)
        self._declare_people(declared)
        self._declare_catalogue(declared)
        self._declare_autoscale(declared)
        self.took = Slowness(self.slow_path_total, options.path_warn_ms, "slow_path").took
        self.waited = Slowness(self.slow_lock_wait_total, options.lock_wait_warn_ms, "slow_lock_wait").took

    def render(self) -> bytes:
        """Give the Prometheus text format of everything counted so far."""
        return prometheus_client.generate_latest(self.registry)

    def _declare_sessions(self, d: Declared) -> None:
        self.ready = d.gauge("ready", "Whether this instance takes new work: 1, or 0 when not.")
        self.draining = d.gauge("draining", "Whether this instance is being taken out of service: 1, or 0.")
        self.event_loop_lag_seconds = d.seconds(
            "event_loop_lag_seconds", "How late callbacks of the event loop run, measured twice a second."
        )
        self.sessions_open = d.gauge("sessions_open", "Sessions this instance owns.")
        self.sessions_away = d.gauge("sessions_away", "Sessions that wait for their clients to come back.")
        self.session_resume_total = d.counter_by(
            "session_resume_total",
            "Clients that came back with a token: to the instance they left, to another one, in vain.",
            outcome=OneOf("here", "moved", "failed", "unchecked"),
        )
        self.audio_frames_total = d.counter("audio_frames_total", "Audio frames accepted from clients.")
        self.audio_bytes_total = d.counter("audio_bytes_total", "Bytes of audio accepted from clients.")
        self.audio_frames_dropped_total = d.counter_by(
            "audio_frames_dropped_total", "Audio frames that reached no utterance, by cause.", why=AtMost(16)
        )
        self.bad_input_total = d.counter_by(
            "bad_input_total", "Messages refused because of what they contain, by kind.", kind=AtMost(32)
        )
        self.slow_consumer_closed_total = d.counter(
            "slow_consumer_closed_total", "Connections closed because their peer read too slowly."
        )
        self.web_task_finalized_total = d.counter_by(
            "web_task_finalized_total",
            "Utterances that ended, by reason of the cut.",
            reason=OneOf(*labels.CUT_REASONS),
        )
        self.empty_finalize_total = d.counter("empty_finalize_total", "Cuts that found no audio.")
        self.duplicate_finalize_suppressed_total = d.counter(
            "duplicate_finalize_suppressed_total", "Cuts asked for again after the utterance had ended."
        )

        self.auth_refused_total = d.counter_by(
            "auth_refused_total",
            "Peers that were not let in, or closed for claiming what they were not granted, by cause.",
            kind=OneOf("session", "node", "admin", "token"),
            why=AtMost(16),
        )

    def _declare_results(self, d: Declared) -> None:
        self.translation_results_total = d.counter(
            "translation_results_total", "Utterances answered with a translation."
        )
        self.missing_results_total = d.counter_by(
            "missing_results_total", "Utterances answered with missing_result, by reason.", reason=AtMost(32)
        )
        self.result_gap_timeout_total = d.counter(
            "result_gap_timeout_total", "Utterances given up because a later one had waited long enough."
        )
        self.results_held_total = d.counter(
            "results_held_total", "Results that had to wait for an earlier utterance."
        )
        self.results_late_total = d.counter(
            "results_late_total", "Results delivered after their utterance had been reported missing."
        )
        self.results_dropped_total = d.counter_by(
            "results_dropped_total", "Results of nodes that were not used, by cause.", why=AtMost(16)
        )
        self.answer_latency_seconds = d.seconds(
            "answer_latency_seconds", "Time from the cut to the answer.", labels.ANSWER_BUCKETS_S
        )

        self.stage_seconds = d.seconds_by(
            "stage_seconds",
            "Time of an utterance in each stage: from its last speech to its cut, waiting for a node,"
            " being handed to it, one way between two instances, on the node, until its answer is sent.",
            labels.STAGE_BUCKETS_S,
            stage=OneOf(*STAGES),
        )

    def _declare_rooms(self, d: Declared) -> None:
        self.room_members = d.gauge("room_members", "Sessions of this instance that are in a room.")
        self.room_results_total = d.counter(
            "room_results_total", "Ends of utterances, one for each language, that were told to a room."
        )
        self.result_encodings_total = d.counter(
            "result_encodings_total", "Results that were encoded for the client who spoke; each once."
        )
        self.room_encodings_total = d.counter(
            "room_encodings_total", "Messages that were encoded to tell a room how an utterance ended."
        )
        self.room_deliveries_total = d.counter(
            "room_deliveries_total", "Such messages that were handed to members who are connected here."
        )
        self.room_text_jobs_total = d.counter(
            "room_text_jobs_total", "Jobs that were given the words another language's job had recognised."
        )

    def _declare_dispatch(self, d: Declared) -> None:
        self.jobs_open = d.gauge("jobs_open", "Jobs of this instance's sessions that are not terminal.")
        self.duplicate_job_blocked_total = d.counter(
            "duplicate_job_blocked_total", "Jobs not made because the utterance had one for that language."
        )
        self.reserve_attempt_total = d.counter_by(
            "reserve_attempt_total",
            "Questions for a free slot, by answer.",
            result=OneOf("success", "fail", "error"),
        )
        self.no_available_node_total = d.counter_by(
            "no_available_node_total",
            "Jobs that found no node, by main reason.",
            reason=OneOf(*labels.EXCLUSIONS),
        )
        self.dispatch_latency_seconds = d.seconds(
            "dispatch_latency_seconds", "Time from the cut to handing job_assign to the node's connection."
        )
        self.phase3_pool_attempt_total = d.counter_by(
            "phase3_pool_attempt_total",
            "Pools that were asked for a free slot, by answer.",
            pool=AtMost(24),
            result=OneOf("success", "fail"),
        )
        self.phase3_pool_selected_total = d.counter_by(
            "phase3_pool_selected_total",
            "Searches for a node, by the pool that had one: the first that was asked, a later one, or none.",
            pool=AtMost(16),
            outcome=OneOf("hit", "miss"),
            fallback=OneOf("true", "false"),
        )
        self.ack_timeout_total = d.counter(
            "ack_timeout_total", "Attempts whose node did not acknowledge the job in time."
        )
        self.failover_total = d.counter_by(
            "failover_total", "Attempts given up in favour of another one, by cause.", why=AtMost(16)
        )

    def _declare_nodes(self, d: Declared) -> None:
        self.nodes_connected = d.gauge("nodes_connected", "Nodes whose connection this instance holds.")
        self.node_registration_total = d.counter_by(
            "node_registration_total",
            "Registrations, by result: accepted or the refusal's code.",
            result=AtMost(16),
        )
        self.lost_nodes = d.gauge_table(
            "lost_nodes", "Nodes of this instance that went away without a word lately; 1 each.", "node_id"
        )
        self.node_overload_reject_total = d.counter(
            "node_overload_reject_total", "Attempts that a node refused because it was full."
        )
        self.model_na_received_total = d.counter(
            "model_na_received_total", "Reports of nodes that lack a service."
        )
        self.model_na_rate_limited_total = d.counter(
            "model_na_rate_limited_total", "Such reports beyond what one node may send."
        )
        self.model_na_marked_total = d.counter(
            "model_na_marked_total", "Such reports that took a type of service out of what a node offers."
        )
        self.model_na_by_reason_total = d.counter_by(
            "model_na_by_reason_total",
            "Such reports within the limit, by reason.",
            reason=AtMost(64, *labels.MISSING_REASONS),
        )
        self.model_na_by_service_total = d.counter_by(
            "model_na_by_service_total", "Such reports within the limit, by service.", service_id=AtMost(63)
        )
        self.model_na_rate_limited_by_node_total = d.counter_by(
            "model_na_rate_limited_by_node_total",
            "Such reports beyond the limit, by node.",
            node_id=AtMost(63),
        )
        self.model_na_marked_by_node_total = d.counter_by(
            "model_na_marked_by_node_total", "Such reports that marked a node, by node.", node_id=AtMost(63)
        )
        self.model_na_other_reason_total = d.overflow(
            "model_na_other_reason_total", self.model_na_by_reason_total
        )
        self.model_na_other_service_total = d.overflow(
            "model_na_other_service_total", self.model_na_by_service_total
        )
        self.model_na_other_rate_limited_node_total = d.overflow(
            "model_na_other_rate_limited_node_total", self.model_na_rate_limited_by_node_total
        )
        self.model_na_other_marked_node_total = d.overflow(
            "model_na_other_marked_node_total", self.model_na_marked_by_node_total
        )
        self.model_na_notices_total = d.counter(
            "model_na_notices_total", "Missing services logged, one line for all reports of a short time."
        )

    def _declare_company(self, d: Declared) -> None:
        kinds = AtMost(16)
        self.instances_alive = d.gauge("instances_alive", "Instances that live, as this one sees it.")
        self.instances_lost_total = d.counter(
            "instances_lost_total", "Other instances that were seen to die."
        )
        self.lost_instances = d.gauge_table(
            "lost_instances", "Other instances that died lately and are not back; 1 each.", "instance_id"
        )
        self.instances_adopted_total = d.counter(
            "instances_adopted_total", "Dead instances whose letters and nodes this one took charge of."
        )
        self.letters_sent_total = d.counter_by(
            "letters_sent_total",
            "Letters to other instances, by kind and outcome.",
            kind=kinds,
            outcome=OneOf("sent", "gone", "full", "error"),
        )
        self.letters_received_total = d.counter_by(
            "letters_received_total",
            "Letters of other instances, by kind and outcome.",
            kind=kinds,
            outcome=OneOf("done", "later", "stale"),
        )
        self.letter_age_seconds = d.seconds(
            "letter_age_seconds", "Time from sending a letter to having its effect."
        )
        self.phase2_inbox_pending = d.gauge(
            "phase2_inbox_pending", "Letters that were taken and could not be dealt with yet."
        )
        self.phase2_dlq_moved_total = d.counter("phase2_dlq_moved_total", "Letters that became dead letters.")

    def _declare_store(self, d: Declared) -> None:
        self.store_call_total = d.counter_by(
            "store_call_total", "Calls of Redis, by script.", script=AtMost(64), result=OneOf("ok", "err")
        )
        self.store_call_seconds = d.seconds("store_call_seconds", "Time of one call of Redis.")
        self.store_reconnect_total = d.counter("store_reconnect_total", "Connections to Redis made anew.")
        self.store_corrupt_value_total = d.counter(
            "store_corrupt_value_total", "Stored values of a wrong type or version, treated as absent."
        )
        self.phase2_redis_op_total = d.alias(
            "phase2_redis_op_total",
            "Calls of Redis under the name that older alerts know.",
            self.store_call_total,
            "op",
            "result",
        )

    def _declare_people(self, d: Declared) -> None:
        self.slow_path_total = d.counter_by(
            "slow_path_total", "Sections that took longer than path_warn_ms.", path=OneOf(*labels.PATHS)
        )
        self.slow_lock_wait_total = d.counter_by(
            "slow_lock_wait_total",
            "Waits longer than lock_wait_warn_ms for what somebody else had.",
            lock=OneOf(*labels.LOCKS),
        )
        self.spans_exported_total = d.counter("spans_exported_total", "Spans that the collector has taken.")
        self.spans_dropped_total = d.counter_by(
            "spans_dropped_total",
            "Spans that were lost, because too many waited or because the collector did not take them.",
            why=OneOf("queue_full", "export_failed"),
        )
        self.stats_requests_total = d.counter("stats_requests_total", "Requests for what people watch.")
        self.stats_stale_total = d.counter(
            "stats_stale_total", "Such requests whose answer was more than 10 s old."
        )
        self.stats_request_duration_seconds = d.seconds(
            "stats_request_duration_seconds", "Time of one such request."
        )
        self.dashboard_snapshot_age_seconds = d.gauge(
            "dashboard_snapshot_age_seconds", "Age of what people are shown; 0 before there is anything."
        )
        self.web_task_pause_ms = d.gauge(
            "web_task_pause_ms",
            "Quiet that ends an utterance, in milliseconds, unless a session says otherwise.",
        )

    def _declare_catalogue(self, d: Declared) -> None:
        self.service_catalog_fail_count = d.gauge(
            "service_catalog_fail_count", "Failures in a row to fetch the catalogue of services."
        )
        self.service_catalog_last_success_age_seconds = d.gauge(
            "service_catalog_last_success_age_seconds", "Age of the last catalogue that was fetched; 0: none."
        )

    def _declare_autoscale(self, d: Declared) -> None:
        self.autoscale_desired_nodes = d.gauge_table(
            "autoscale_desired_nodes", "Nodes that the load of all instances asks for.", "pool", "pair"
        )
        self.autoscale_load_slots = d.gauge_table(
            "autoscale_load_slots", "Slots that the load of all instances keeps busy.", "pool", "pair"
        )
        self.autoscale_free_slots = d.gauge_table(
            "autoscale_free_slots", "Free slots of nodes that may be chosen.", "pool", "pair"
        )
        self.autoscale_waiting_jobs = d.gauge_table(
            "autoscale_waiting_jobs", "Jobs of this instance that wait for a node.", "pool", "pair"
        )
        self.autoscale_wait_p95_ms = d.gauge(
            "autoscale_wait_p95_ms",
            "Milliseconds in which 95 of 100 jobs of this instance found a node, over the last minutes.",
        )
