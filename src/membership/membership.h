/* SPDX-License-Identifier: Apache-2.0 */
/* Membership: who is in. Ballots, evidence, pause checks, joining and leaving. Private to this
 * folder; all-reduce and the core ask by core/meet.h. */
#ifndef SPOTNIK_MEMBERSHIP_MEMBERSHIP_H
#define SPOTNIK_MEMBERSHIP_MEMBERSHIP_H

#include "core/meet.h"
#include "member/brief.h"
#include "member/lineage.h"
#include "membership/admission.h"
#include "membership/agreement.h"
#include "membership/audit.h"
#include "membership/detection.h"

/* A peer that we have, want or had a control link to: members of the view, joiners, the excluded
 * until they know it. */
struct peer {
    struct spotnik_member member;
    bool used, linked, dialling;
    /* where it stood in the last view that held it: peer_rank() looks there first; NO_RANK: no
     * view has, as long as it has been a peer */
    uint32_t rank;
    /* ring neighbour, or the next hop of a pass: heartbeats go out and silence counts */
    bool active;
    /* active for a hop, a word by a tree or a view that it has not got yet: it does not know that
     * we listen for it */
    bool sought;
    struct peer_end end;
    bool heard; /* on the present link: whatever it had to say first (FENCED) has come */
    /* it is known to be at this epoch or later, or RESTART of it is under way to it */
    uint64_t told_epoch;
    bool cut; /* data to it do not arrive, in this view */
    struct silence silence;
    struct compared compared[DIGEST_CHAINS];
    bool wants_all; /* it could not follow a brief RESTART */
};

struct membership {
    struct evidence_table evidence_table;
    struct agreement agreement;
    struct joiners joiners;
    struct entering entering;
    struct leaving leaving;
    struct digests digests;
    struct pause pause;
    /* the step whose state was copied when joining: its result was never here */
    uint64_t copied_step;
    struct spotnik_divergence divergence; /* why we have failed, if for that */
    struct spotnik_mismatch mismatch;     /* the same */
    struct peer *peer;
    uint32_t peer_max, peer_top; /* places; all from peer_top on have never been used */
    uint64_t heartbeat_ns;
    uint64_t settle_ns; /* not before: see step_needs_settling() */
    uint32_t settles;   /* since the last commit */
};

/* apply_ballot.c */
enum ballot_next ballot_start(struct spotnik_core *core);
enum ballot_next prepare_forward(struct spotnik_core *core);
enum ballot_next prepare_returned(struct spotnik_core *core);
enum ballot_next proposal_accept(struct spotnik_core *core);
enum ballot_next joiner_overdue(struct spotnik_core *core);
void apply_promise(struct spotnik_core *core, struct spotnik_ballot ballot, bool parked);
void apply_sign(struct spotnik_core *core);
void prepare_empty(struct spotnik_core *core);
void freeze(struct spotnik_core *core);
void redial_silent(struct spotnik_core *core);
void ballot_park(struct spotnik_core *core);

/* apply_tree.c */
enum ballot_next tree_ask(struct spotnik_core *core);
enum ballot_next tree_vote(struct spotnik_core *core);
enum ballot_next tree_conclude(struct spotnik_core *core);
void tree_leave(struct spotnik_core *core);
bool tree_is_silent(struct spotnik_core *core);
void tree_again(struct spotnik_core *core, const struct peer *from);
bool tree_seeks(const struct spotnik_core *core, const struct peer *peer);
void tree_flush(struct spotnik_core *core, struct peer *peer);

/* apply.c */
void apply_ballot(struct spotnik_core *core, enum ballot_next next);
void apply_digest(struct spotnik_core *core, const struct digest_effects *effects,
                  struct peer *const neighbour[]);
void apply_enter(struct spotnik_core *core, const struct enter_effects *effects,
                 struct peer *sponsor, const struct spotnik_member *unmet);
void apply_evidence(struct spotnik_core *core, const struct evidence_effects *effects,
                    uint32_t rank);
void apply_forgiven(struct spotnik_core *core);
void apply_pause(struct spotnik_core *core, const struct pause_effects *effects);

/* on_audit.c */
void audit_late(struct spotnik_core *core);
void audit_ask(struct spotnik_core *core);
void audit_tick(struct spotnik_core *core);
void audit_link(struct spotnik_core *core, struct peer *peer);
void on_claims(struct spotnik_core *core, struct peer *from, const struct spotnik_message *message);
void on_pause_ack(struct spotnik_core *core, const struct peer *from,
                  const struct spotnik_message *message);
void on_pause_check(struct spotnik_core *core, struct peer *from,
                    const struct spotnik_message *message);
void on_result(struct spotnik_core *core, const struct spotnik_event_result *result);
void on_woken(struct spotnik_core *core);

/* on_evidence.c */
void evidence_add(struct spotnik_core *core, uint32_t rank, enum spotnik_evidence evidence);
void evidence_hear(struct spotnik_core *core, struct peer *peer);

/* inputs.c */
struct evidence_input evidence_input(const struct spotnik_core *core);
struct joiners_input joiners_input(const struct spotnik_core *core);
struct pause_input pause_input(const struct spotnik_core *core);
struct agreement_input agreement_input(const struct spotnik_core *core);
struct prepare_words prepare_words(const struct spotnik_core *core);

/* evidence.c */
enum ballot_next evidence_schedule(struct spotnik_core *core);
void evidence_learn(struct spotnik_core *core, const struct spotnik_prepare *prepare);
void evidence_learn_facts(struct spotnik_core *core, const struct spotnik_prepare *prepare);

/* proposal_check.c */
bool proposal_unpack(const struct spotnik_core *core, struct spotnik_proposal *proposal);
bool proposal_sane(const struct spotnik_core *core, const struct spotnik_proposal *proposal);

/* install.c */
enum ballot_next view_install(struct spotnik_core *core, struct spotnik_proposal *proposal);

/* invariants.c */
void invariants_check(const struct spotnik_core *core);

/* on_accept.c */
void on_accept(struct spotnik_core *core, struct peer *from, const struct spotnik_message *message);

/* on_enter.c */
void enter_meet(struct spotnik_core *core);
void enter_next_sponsor(struct spotnik_core *core);
void enter_lose(struct spotnik_core *core, const struct peer *peer);
void enter_hear(struct spotnik_core *core, const struct peer *from);
void enter_send(struct spotnik_core *core);
void on_enter(struct spotnik_core *core, struct peer *from, const struct spotnik_message *message);
void on_enter_ready(struct spotnik_core *core, const struct spotnik_member *sponsor);

/* on_tree.c */
void on_ask(struct spotnik_core *core, struct peer *from, const struct spotnik_message *message);
void on_promise(struct spotnik_core *core, const struct peer *from,
                const struct spotnik_message *message);
void on_accepted(struct spotnik_core *core, const struct peer *from,
                 const struct spotnik_message *message);

/* sponsor.c */
enum ballot_next sponsor_start(struct spotnik_core *core);
void joiners_expire(struct spotnik_core *core);
void joiners_left_out(struct spotnik_core *core, const struct spotnik_proposal *proposal);
bool joiner_is_heard(const struct spotnik_core *core, struct spotnik_id id);
void joiner_forget(struct spotnik_core *core, struct spotnik_id id);

/* settling.c */
bool step_needs_settling(const struct spotnik_core *core);

/* on_leave.c */
void on_leave(struct spotnik_core *core);
void leave_tick(struct spotnik_core *core);

/* on_link.c */
void on_link_up(struct spotnik_core *core, const struct spotnik_member *member);
void on_link_down(struct spotnik_core *core, const struct spotnik_event_ended *ended);
void on_dial_failed(struct spotnik_core *core, const struct spotnik_event_ended *ended);
void on_death(struct spotnik_core *core, const struct spotnik_event_death *death);
void on_channel_down(struct spotnik_core *core, const struct spotnik_member *member);
void on_path_down(struct spotnik_core *core, const struct spotnik_member *member);

/* on_message.c */
void on_message(struct spotnik_core *core, const struct spotnik_event_message *received);
void on_fenced(struct spotnik_core *core, struct peer *from, const struct spotnik_message *message);
void on_mismatch(struct spotnik_core *core, const struct peer *from,
                 const struct spotnik_message *message);
void on_view_ask(struct spotnik_core *core, struct peer *from);

/* on_prepare.c */
void ballot_outbid(struct spotnik_core *core, bool parked);
void on_prepare(struct spotnik_core *core, struct peer *from,
                const struct spotnik_message *message);

/* on_restart.c */
void on_restart(struct spotnik_core *core, struct peer *from,
                const struct spotnik_message *message);

/* on_start.c */
void on_found(struct spotnik_core *core, const struct spotnik_event_found *found);
void on_resume(struct spotnik_core *core, const struct spotnik_event_resume *resume);
void on_join(struct spotnik_core *core, const struct spotnik_event_join *join);

/* on_tick.c */
void on_kernel(struct spotnik_core *core, const struct spotnik_member *member);
void on_tick(struct spotnik_core *core);

/* pass.c */
void pass_send(struct spotnik_core *core, enum pass pass, const struct spotnik_member *to);
void pass_cancel(struct spotnik_core *core, enum pass pass);
void pass_flush(struct spotnik_core *core, struct peer *peer);

/* path.c */
void path_note(struct spotnik_core *core, const struct spotnik_member *from,
               const struct spotnik_member *to);
uint64_t path_sign(const struct spotnik_core *core);

/* peer.c */
uint64_t silence_floor(const struct spotnik_core *core, const struct spotnik_member *member);
struct peer *peer_find(struct spotnik_core *core, struct spotnik_id id);
uint32_t peer_rank(const struct spotnik_core *core, const struct peer *peer);
struct peer *peer_want_near(struct spotnik_core *core, const struct spotnik_member *member,
                            uint32_t near);
void peer_activate(struct spotnik_core *core, struct peer *peer);
void peer_seek(struct spotnik_core *core, struct peer *peer);
void peer_unseek(struct peer *peer);

/* neighbours.c */
void peers_after_view(struct spotnik_core *core);

/* phase.c */
void phase_set(struct spotnik_core *core, enum phase phase);
void arm_retry(struct spotnik_core *core, uint64_t wait_ns);

/* compose.c */
void send_message(struct spotnik_core *core, struct peer *peer, enum spotnik_message_kind kind);
void send_serial(struct spotnik_core *core, struct peer *peer, enum spotnik_message_kind kind,
                 uint64_t serial);
void pause_check_send(struct spotnik_core *core, struct peer *peer);
void send_of_ballot(struct spotnik_core *core, struct peer *peer, enum spotnik_message_kind kind);
void tell_view(struct spotnik_core *core, struct peer *peer);

/* install_broadcast.c */
void restart_broadcast(struct spotnik_core *core);
void restart_reroute(struct spotnik_core *core, struct spotnik_id failed);

/* ask_witness.c */
bool witness_has_named_us(const struct spotnik_core *core);
bool witness_is_awaited(struct spotnik_core *core);
void witness_ask_again(struct spotnik_core *core);

/* on_witness.c */
void on_witness(struct spotnik_core *core, const struct spotnik_event_witness *answer);

#endif
