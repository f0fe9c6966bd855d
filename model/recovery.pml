/* SPDX-License-Identifier: Apache-2.0 */
/* The passage from view to view: reconcile, accept, restart, and the commit hand-over (docs/design/0001-core.md).
 *
 * Decides: whether any order of messages, deaths, lost links, leaves and one join can break P1 (one lineage), P2 (same
 * view), P3 (atomic step) or P9 (progress) within the bounds given on the command line. It does not look at bytes, chunks,
 * clocks, shares of samples, nor at finding the job. README.md lists what is left out, and which file of src/ each part
 * below stands for.
 *
 * Reading order: state, helpers, one inline per event, the member, the world (faults), the end check.
 * Sets of members are bit masks; ballot = round * 8 + member. One event is one indivisible step of the model. */

#ifndef N
#define N 4       /* members of the first view: 0 .. N-1 in ring order; the smaller number is the smaller member_id */
#endif
#ifndef JOIN
#define JOIN 0    /* 1: process N is a joiner */
#endif
#ifndef CRASHES
#define CRASHES 2 /* how many processes may die, at any moment */
#endif
#ifndef MORTAL
#define MORTAL ALL /* a set: only these may die */
#endif
#ifndef CUT
#define CUT 0     /* a set: it may be cut off from the rest once; the cut heals at any later moment */
#endif
#ifndef BRIDGE
#define BRIDGE 0  /* a set of two, one on either side: the link between them outlives the cut */
#endif
#ifndef DOWNS
#define DOWNS 0   /* how many single links may break without a death (a false suspicion) */
#endif
#ifndef HASTE
#define HASTE 0   /* how many ballots may start without any reason (a retry timer that fired too early) */
#endif
#ifndef LEAVERS
#define LEAVERS 0 /* a set: they may ask to leave at any moment */
#endif
#ifndef STEPS
#define STEPS 2   /* steps of the job, at most 3 */
#endif
#ifndef EPOCHS
#define EPOCHS 4  /* view changes; more is an error */
#endif
#ifndef TOKENS
#define TOKENS 5  /* tokens in flight at once, 4, 5 or 8; more is an error */
#endif

#define M (N + JOIN)
#define J N
#define ALL ((1 << M) - 1)
#define MADE 128  /* marks a view that has been made, even an empty one */

#define BIT(x) (1 << (x))
#define IN(set, x) (((set) >> (x)) & 1)
#define CNT(s) (((s) & 1) + (((s) >> 1) & 1) + (((s) >> 2) & 1) + (((s) >> 3) & 1) + (((s) >> 4) & 1) + \
                (((s) >> 5) & 1) + (((s) >> 6) & 1))
#define LOW(s) ((s) & (-(s)))
/* members strictly between i and j, going round from i */
#define BETWEEN(i, j) ((i) < (j) -> ((BIT(j) - 1) & ~(BIT((i) + 1) - 1)) : \
                       ((ALL & ~(BIT((i) + 1) - 1)) | (BIT(j) - 1)))

/* ---- state ---------------------------------------------------------------------------------------------------------- */

/* The processes. */
byte up = ALL;       /* that have not died */
byte out = 0;        /* that learnt of a view made without them: they join again as new members, beyond this model */
byte left = 0;       /* whose planned leave is complete */
byte leaving = 0;    /* that asked to leave */
byte parked = 0;     /* whose last ballot had no quorum, and nothing has changed since */
byte epoch[M];
byte committed[M];
byte origin[M * 4];  /* [member * 4 + step]: 1 + epoch in which that member's result of the step was reduced */
byte promised[M];    /* highest ballot promised in this epoch; not 0: frozen */
byte accepted[M];    /* ballot of the accepted proposal, 0: none; the proposal follows */
byte accepted_view[M];
byte accepted_step[M];
byte covered[M];     /* the losses already known to the ballot promised last */
byte linked[M];      /* control links that stand; symmetric */
byte gone[M];        /* seen to end on a link that stood: all it ever said was received */
byte silent[M];      /* link lost, no proof of anything */
#ifdef SECOND_HAND
byte heard[M];       /* kept for the epoch: what others called GONE in some ballot. The sources keep it as a rumour only */
#endif

/* What has been made; same for all, which is asserted at every installation. */
byte view[EPOCHS + 1];
byte settled[EPOCHS + 1];
byte settled_origin[EPOCHS + 1];
byte stable[4];      /* origin of a stable step */
byte fenced[(EPOCHS + 1) * M]; /* [epoch * M + k]: members that told k FENCED in that epoch, or were beyond it when they met k */
byte owed[M];        /* [i]: to whom it could not say FENCED in its epoch yet */
byte given[(EPOCHS + 1) * M];  /* [epoch * M + k]: highest step k has contributed to in that epoch */

/* PREPARE and ACCEPT tokens on their way. RESTART is not a token here: see learn(). */
#define NONE 0
#define PREPARE 1
#define ACCEPT 2
typedef token_t {
    byte kind;
    byte epoch;
    byte ballot;
    byte from, to;
    byte voters;        /* promised, later: who must accept */
    byte goners;        /* GONE in the words of a voter of this ballot */
    byte absent;        /* dead or silent in the words of anybody on the way */
    byte leavers;
    short report;       /* committed step of each voter, two bits each */
    byte best, best_view, best_step; /* the accepted proposal with the highest ballot */
};
token_t token[TOKENS];

#ifdef WITNESS
byte witness_epoch, witness_owner; /* the decision that its name is for, and whom it names */
#endif

/* What may still go wrong. */
byte crashes = CRASHES;
byte downs = DOWNS;
byte haste = HASTE;
byte cut = 0;        /* the set that is cut off now */
bit cuts = (CUT != 0);
bit calm = 0;        /* no further faults: progress is due */

/* scratch, never part of the state */
hidden byte v, k, s, t, e, x, y;
hidden byte ok;

/* ---- helpers -------------------------------------------------------------------------------------------------------- */

#define NUMBER(b) ((b) & 7)                   /* the initiator of a ballot */
#define V(i) (view[epoch[i]] & ALL)
#define KNOWN(i) (gone[i] | silent[i])
#define LIVE(i) (IN(up, i) && !IN(out | left, i))
#ifdef SINGLE                                 /* only the decision of epoch 1: members that have it are done */
#define RING(i) (LIVE(i) && IN(V(i), i) && epoch[i] == 0)
#else
#define RING(i) (LIVE(i) && IN(V(i), i))      /* stands in the view of its epoch */
#endif
#define FENCED(i) fenced[epoch[i] * M + (i)]
#define SEPARATE(i, j) (cut != 0 && IN(cut, i) != IN(cut, j) && !(IN(BRIDGE, i) && IN(BRIDGE, j)))
#define REPORT(t, k) ((token[t].report >> (2 * (k))) & 3)

/* src/member/evidence.h: what i itself can swear to. */
#ifdef BUG_TAINTED_AS_GONE
#define PROOF(i) (KNOWN(i) & ~up & V(i))
#else
#ifdef BUG_END_IS_GONE
#define PROOF(i) (KNOWN(i) & ~FENCED(i) & V(i))
#else
#ifdef SECOND_HAND
#define PROOF(i) ((gone[i] & ~FENCED(i) & V(i)) | (heard[i] & V(i)))
#else
#define PROOF(i) (gone[i] & ~FENCED(i) & V(i))
#endif
#endif
#endif

/* What breaks an exact tie: the smallest id, or the file that is moved from one epoch's name to a later one's (src/discovery/witness.c). */
#define IS_TIE(a, v) (2 * CNT(a) == CNT(v))
#ifdef WITNESS
#ifdef BUG_WITNESS_COPIED
#define NAMED(a, v, n) (1)
#else
#define NAMED(a, v, n) (witness_epoch == (n) && ((a) & BIT(witness_owner)) != 0)
#endif
#define TAKE(i, a) if :: IS_TIE(a, V(i)) && witness_epoch < epoch[i] + 1 -> witness_epoch = epoch[i] + 1; witness_owner = i :: else -> skip fi
#define NAMEABLE(a, v, n) (witness_epoch < (n) || NAMED(a, v, n))
#else
#define NAMED(a, v, n) (((a) & LOW(v)) != 0)
#define TAKE(i, a) skip
#define NAMEABLE(a, v, n) NAMED(a, v, n)
#endif

/* src/member/lineage.c: may the voters a make the view after v, when g are proven GONE? tie: whether they may when they are half. */
#define MAJORITY(a, v, tie) (2 * CNT(a) > CNT(v) || (IS_TIE(a, v) && (tie)))
#ifdef BUG_ANY_QUORUM
#define ALLOWED(a, g, v, tie) (1)
#else
#ifdef RULE_SHRINKING                         /* the first draft of 0001: see README, "What it found" */
#define ALLOWED(a, g, v, tie) MAJORITY(a, (v) & ~(g), tie)
#else
#define ALLOWED(a, g, v, tie) (MAJORITY(a, v, tie) || (a) == ((v) & ~(g)))
#endif
#endif

inline slot()        /* t = a free place for a token */
{
    t = 0;
    do
    :: t < TOKENS && token[t].kind != NONE -> t++
    :: else -> break
    od;
    assert(t < TOKENS)
}

inline clear(t)
{
    token[t].kind = NONE; token[t].epoch = 0; token[t].ballot = 0; token[t].from = 0; token[t].to = 0;
    token[t].voters = 0; token[t].goners = 0; token[t].absent = 0; token[t].leavers = 0; token[t].report = 0;
    token[t].best = 0; token[t].best_view = 0; token[t].best_step = 0
}

inline transmit(t, i, k)      /* i hands token t to k: it arrives only over a link that stands */
{
    token[t].from = i; token[t].to = k;
    if
    :: k == i || (IN(up, k) && IN(linked[i], k)) -> skip
    :: else -> clear(t)
    fi
}

/* Next stop of a PREPARE: whoever is not known to be absent; the initiator is never passed over. */
inline next_live(t, i)
{
    k = (i + 1) % M;
    do
    :: k != NUMBER(token[t].ballot) && (!IN(V(i), k) || IN(token[t].absent, k)) -> k = (k + 1) % M
    :: else -> break
    od
}

/* Next stop of an ACCEPT: every voter. */
inline next_voter(t, i)
{
    k = (i + 1) % M;
    do
#ifdef BUG_ACCEPT_SKIPS
    :: k != NUMBER(token[t].ballot) && (!IN(token[t].voters, k) || IN(KNOWN(i), k)) -> k = (k + 1) % M
#else
    :: k != NUMBER(token[t].ballot) && !IN(token[t].voters, k) -> k = (k + 1) % M
#endif
    :: else -> break
    od
}

/* ---- the data path: contribution and commit ------------------------------------------------------------------------- */

inline contribute(i)
{
    if
    :: committed[i] < STEPS -> given[epoch[i] * M + i] = committed[i] + 1
    :: else -> skip
    fi
}

/* Everybody in i's view has given to step `committed + 1` in i's epoch. */
#define GAVE(i, k) (!IN(V(i), k) || given[epoch[i] * M + (k)] > committed[i])
#if M == 3
#define COMPLETE(i) (GAVE(i, 0) && GAVE(i, 1) && GAVE(i, 2))
#endif
#if M == 4
#define COMPLETE(i) (GAVE(i, 0) && GAVE(i, 1) && GAVE(i, 2) && GAVE(i, 3))
#endif
#if M == 5
#define COMPLETE(i) (GAVE(i, 0) && GAVE(i, 1) && GAVE(i, 2) && GAVE(i, 3) && GAVE(i, 4))
#endif
#if M == 6
#define COMPLETE(i) (GAVE(i, 0) && GAVE(i, 1) && GAVE(i, 2) && GAVE(i, 3) && GAVE(i, 4) && GAVE(i, 5))
#endif

#ifdef BUG_COMMIT_AFTER_PROMISE
#define MAY_COMMIT(i) 1
#else
#define MAY_COMMIT(i) (promised[i] == 0)
#endif
#ifdef BUG_HANDOVER_AFTER_PROMISE
#define MAY_TAKE(i) 1
#else
#define MAY_TAKE(i) (promised[i] == 0)
#endif

/* P3 at every commit of step s by i. */
inline check_commit(i, s)
{
    k = 0;
    do
    :: k < M ->
        if
        :: k != i && IN(V(i), k) && epoch[k] == epoch[i] && IN(up, k) ->
            assert(committed[k] <= s + 1 && committed[k] + 1 >= s);   /* never further apart than one step */
            assert(committed[k] < s || origin[k * 4 + s] == origin[i * 4 + s])
        :: else -> skip
        fi;
        k++
    :: else -> break
    od;
    /* A stable step is never reduced again, and has one result. */
    assert(stable[s] == 0 || stable[s] >= origin[i * 4 + s]);
    if
    :: s > 1 && stable[s - 1] == 0 -> stable[s - 1] = origin[i * 4 + s - 1]
    :: s > 1 && stable[s - 1] != 0 -> assert(stable[s - 1] == origin[i * 4 + s - 1])
    :: else -> skip
    fi
}

#define CAN_COMMIT(i) (RING(i) && MAY_COMMIT(i) && committed[i] < STEPS && committed[i] >= settled[epoch[i]] && COMPLETE(i))
inline commit(i)
{
    s = committed[i] + 1;
    committed[i] = s;
    printf("%d commits step %d in epoch %d\n", i, s, epoch[i]);
    origin[i * 4 + s] = epoch[i] + 1;
    check_commit(i, s);
    if
    :: promised[i] == 0 -> contribute(i)
    :: else -> skip
    fi
}

/* A laggard takes the settled step's result from a holder that stands in the same view; what the holder sent before it died
 * may still arrive. */
#define HOLDS(i, j) (IN(V(i), j) && !IN(gone[i], j) && epoch[j] == epoch[i] && IN(linked[i], j) && \
                     committed[j] >= settled[epoch[i]])
#ifdef BUG_SKIP_HANDOVER
#define CAN_TAKE(i, j) (0)
#else
#define CAN_TAKE(i, j) (RING(i) && MAY_TAKE(i) && committed[i] < settled[epoch[i]] && HOLDS(i, j))
#endif
inline take(i, j)
{
    s = settled[epoch[i]];
    printf("%d takes step %d from %d\n", i, s, j);
    assert(committed[i] + 1 == s);
    assert(committed[j] == s);       /* a result is kept until the next commit, which needs the laggard */
    committed[i] = s;
    origin[i * 4 + s] = origin[j * 4 + s];
    check_commit(i, s);
    contribute(i)
}

/* ---- installing a view ---------------------------------------------------------------------------------------------- */

inline check_installation(i)
{
    e = epoch[i]; s = settled[e];
    assert(committed[i] <= s && committed[i] + 1 >= s);    /* a laggard lacks one step at most */
    if
    :: committed[i] == s && s > 0 && settled_origin[e] == 0 -> settled_origin[e] = origin[i * 4 + s]
    :: committed[i] == s && s > 0 && settled_origin[e] != 0 -> assert(settled_origin[e] == origin[i * 4 + s])
    :: else -> skip
    fi;
    if
    :: s > 1 && stable[s - 1] != 0 -> assert(origin[i * 4 + s - 1] == stable[s - 1])
    :: else -> skip
    fi
}

/* i goes to the view after its own, which has been made. */
inline install(i)
{
    epoch[i] = epoch[i] + 1;
    printf("%d goes to epoch %d\n", i, epoch[i]);
    promised[i] = 0; accepted[i] = 0; accepted_view[i] = 0; accepted_step[i] = 0; covered[i] = 0; owed[i] = 0;
    parked = parked & ~BIT(i);
#ifdef SECOND_HAND
    heard[i] = 0;
#endif
    if
    :: IN(V(i), i) ->
        check_installation(i);
        if
        :: committed[i] == settled[epoch[i]] -> contribute(i)
        :: else -> skip
        fi
    :: !IN(V(i), i) && IN(leaving, i) -> left = left | BIT(i)
    :: !IN(V(i), i) && !IN(leaving, i) && i < N -> out = out | BIT(i)
    :: else -> skip                 /* a joiner that is still outside follows the job */
    fi
}

/* The initiator knows that all voters have accepted: the view is made. */
inline make_view(i)
{
    e = epoch[i] + 1;
    assert(e <= EPOCHS);
    printf("%d knows: view %d of epoch %d is chosen\n", i, accepted_view[i] & ALL, e);
    if
    :: view[e] == 0 -> view[e] = accepted_view[i]; settled[e] = accepted_step[i]
    :: else -> assert(view[e] == accepted_view[i] && settled[e] == accepted_step[i])   /* P1, P2 */
    fi;
    install(i)
}

/* RESTART: whoever is ahead tells whoever it has a link to. That is the pass itself, the answer to any frame or heartbeat
 * of an older epoch, and the GOODBYE of a leaver. */
#define CAN_LEARN(i, j) (LIVE(i) && IN(up, j) && IN(linked[i], j) && epoch[j] > epoch[i])

/* ---- the passes ----------------------------------------------------------------------------------------------------- */

/* i sends FENCED to the members of `set` before it passes ACCEPT on. A link that is down gets it at the next LINK_UP, before
 * anything else, if i is still in that epoch: see meet(). */
inline fence(i, set)
{
#ifdef BUG_NO_FENCE
    skip
#else
    owed[i] = owed[i] | ((set) & ~linked[i]);
    k = 0;
    do
    :: k < M && IN((set) & linked[i], k) -> fenced[epoch[i] * M + k] = fenced[epoch[i] * M + k] | BIT(i); k++
    :: k < M && !IN((set) & linked[i], k) -> k++
    :: else -> break
    od
#endif
}

/* src/membership/peer_end.c, peer_end_moved_on(): the first words of b to a on a new link are FENCED where it is due, and the epoch of b. Where
 * that is a later one than a's, b owes nothing for the earlier ones any more, and a counts it as having fenced it in those. */
inline meet(a, b)
{
#ifndef BUG_FENCE_ONCE
    if
    :: IN(owed[b], a) -> fenced[epoch[b] * M + a] = fenced[epoch[b] * M + a] | BIT(b)
    :: else -> skip
    fi;
#endif
#ifndef BUG_LATE_LINK
    e = epoch[a];
    do
    :: e < epoch[b] -> fenced[e * M + a] = fenced[e * M + a] | BIT(b); e++
    :: else -> break
    od;
#endif
    skip
}

inline accept(t, i)
{
    printf("%d accepts %d.%d: view %d, step %d, voters %d\n", i, token[t].ballot / 8, NUMBER(token[t].ballot),
           token[t].best_view & ALL, token[t].best_step, token[t].voters);
    promised[i] = token[t].ballot;
    accepted[i] = token[t].ballot;
    accepted_view[i] = token[t].best_view;
    accepted_step[i] = token[t].best_step;
    covered[i] = V(i) & ~token[t].voters;
#ifdef BUG_FENCE_LEFT_OUT
    fence(i, V(i) & ~token[t].best_view)
#else
    fence(i, V(i) & ~token[t].voters)
#endif
}

inline promise(t, i)
{
    printf("%d promises %d.%d (committed %d, accepted %d)\n", i, token[t].ballot / 8, NUMBER(token[t].ballot), committed[i], accepted[i]);
    promised[i] = token[t].ballot;
    token[t].voters = token[t].voters | BIT(i);
    token[t].goners = token[t].goners | PROOF(i);
    token[t].absent = (token[t].absent | KNOWN(i)) & V(i);
    token[t].leavers = token[t].leavers | (leaving & BIT(i));
    token[t].report = token[t].report | (committed[i] << (2 * i));
#ifndef BUG_IGNORE_ACCEPTED
    if
    :: accepted[i] > token[t].best ->
        token[t].best = accepted[i]; token[t].best_view = accepted_view[i]; token[t].best_step = accepted_step[i]
    :: else -> skip
    fi;
#endif
#ifdef SECOND_HAND
    heard[i] = heard[i] | token[t].goners;
#endif
    covered[i] = token[t].absent & ~BIT(NUMBER(token[t].ballot))
}

/* A joiner that has not been served since it entered cannot tell whether the settled step was stable: when every complete
 * replica is lost, it does not go on alone. (An older member that lags proves that it was not.) */
#if JOIN && !defined(BUG_JOINER_ALONE)
#define INCOMPLETE(i, set) ((set) == BIT(J) && committed[J] < settled[epoch[i]])
#else
#define INCOMPLETE(i, set) (0)
#endif

/* src/member/proposal.c: a new value, when nobody on the way had accepted one. */
inline propose(t, i)
{
    s = 0; k = 0;                      /* the settled step: the highest a voter has committed */
    do
    :: k < M && IN(token[t].voters, k) && REPORT(t, k) > s -> s = REPORT(t, k)
    :: k < M && !(IN(token[t].voters, k) && REPORT(t, k) > s) -> k++
    :: else -> break
    od;
    x = token[t].voters & ~token[t].leavers;
    y = 0; k = 0;                      /* y: voters that hold it */
    do
    :: k < M && IN(token[t].voters, k) && REPORT(t, k) == s -> y = y | BIT(k); k++
    :: k < M && !(IN(token[t].voters, k) && REPORT(t, k) == s) -> k++
    :: else -> break
    od;
#ifndef BUG_HOLDERS_LEAVE
    if                                 /* somebody who stays must hold it */
    :: (x & y) == 0 && (x != 0 || y != token[t].voters) -> x = token[t].voters
    :: else -> skip
    fi;
#endif
#if JOIN
    if
    :: IN(up, J) && !IN(V(i), J) && x != 0 && IN(linked[i], J) && committed[J] + 1 >= s -> x = x | BIT(J)
    :: else -> skip
    fi;
#endif
    token[t].best_view = x | MADE;
    token[t].best_step = s
}

/* PREPARE has come round. */
inline reconciled(t, i)
{
    token[t].absent = token[t].absent & ~BIT(i);
    token[t].voters = token[t].voters & ~token[t].absent;
    TAKE(i, token[t].voters);
    if
    :: !ALLOWED(token[t].voters, token[t].goners, V(i), NAMED(token[t].voters, V(i), epoch[i] + 1)) || INCOMPLETE(i, token[t].voters) -> 
        printf("%d parks: voters %d, gone %d\n", i, token[t].voters, token[t].goners);
        x = 0; y = 0; k = 0;           /* waits until something changes, unless it has changed since the question was put */
        do
        :: k < M && IN(token[t].voters, k) -> x = x | KNOWN(k); y = y | PROOF(k); k++
        :: k < M && !IN(token[t].voters, k) -> k++
        :: else -> break
        od;
        if
        :: (token[t].absent & ~x) == 0 && (y & ~token[t].goners) == 0 -> parked = parked | BIT(i)
        :: else -> skip
        fi;
        clear(t)
    :: else ->
        if
        :: token[t].best == 0 -> propose(t, i)
        :: else -> skip                /* it may have been chosen: the same value again */
        fi;
        token[t].kind = ACCEPT;
        token[t].goners = 0; token[t].absent = 0; token[t].leavers = 0; token[t].report = 0; token[t].best = 0;
        accept(t, i);
        next_voter(t, i);
        if
        :: k == i -> clear(t); make_view(i)
        :: else -> transmit(t, i, k)
        fi
    fi
}

#define AT(t, i) (token[t].kind != NONE && token[t].to == (i) && LIVE(i) && token[t].epoch == epoch[i])
#define STALE(t, i) (token[t].kind != NONE && token[t].to == (i) && (token[t].epoch < epoch[i] || !LIVE(i)))
/* The token is of a view its receiver has yet to install; it carries that view. */
#define EARLY(t, i) (token[t].kind != NONE && token[t].to == (i) && LIVE(i) && token[t].epoch > epoch[i])

inline receive(t, i)
{
    if
    :: token[t].ballot < promised[i] -> printf("%d drops %d.%d\n", i, token[t].ballot / 8, NUMBER(token[t].ballot)); clear(t)
    :: token[t].kind == PREPARE && token[t].ballot > promised[i] ->
        promise(t, i);
        next_live(t, i);
        if
        :: IN(KNOWN(i), k) -> clear(t)             /* its initiator is dead or out of reach */
        :: else -> transmit(t, i, k)
        fi
    :: token[t].kind == PREPARE && token[t].ballot == promised[i] ->
        if
        :: NUMBER(token[t].ballot) == i -> reconciled(t, i)
        :: else -> clear(t)
        fi
    :: token[t].kind == ACCEPT && token[t].ballot >= promised[i] ->
        if
        :: NUMBER(token[t].ballot) == i -> clear(t); make_view(i)
        :: else ->
            accept(t, i);
            next_voter(t, i);
            transmit(t, i, k)
        fi
    fi
}

inline start(i, base)
{
    assert(base / 8 < 31);
    printf("%d starts ballot %d.%d in epoch %d\n", i, base / 8 + 1, i, epoch[i]);
    slot();
    token[t].kind = PREPARE;
    token[t].epoch = epoch[i];
    token[t].ballot = (base / 8 + 1) * 8 + i;
    parked = parked & ~BIT(i);
    promise(t, i);
    next_live(t, i);
    transmit(t, i, k)
}

/* Who starts a ballot: the nearest predecessor, alive as far as it knows, of a loss its last ballot did not cover; */
#define LOSS(i, j) (IN(KNOWN(i) & V(i) & ~covered[i], j) && (V(i) & ~KNOWN(i) & BETWEEN(i, j)) == 0)
#define ANY(p, i) (p(i, 0) || p(i, 1) || p(i, 2) || p(i, (M > 3 -> 3 : 0)) || p(i, (M > 4 -> 4 : 0)) || p(i, (M > 5 -> 5 : 0)))
#define SOME(p, i) (p(i, 0) || p(i, 1) || p(i, 2) || p(i, (M > 3 -> 3 : 0)) || p(i, (M > 4 -> 4 : 0)) || p(i, (M > 5 -> 5 : 0)))
#define CAN_START(i) (RING(i) && ANY(LOSS, i))
/* whoever wants to leave, once somebody who stays holds its last step; */
#define HEIR(i, j) (IN(V(i) & up & ~leaving, j) && epoch[j] == epoch[i] && committed[j] >= committed[i])
#define LAGS(i, j) (IN(V(i) & up, j) && (epoch[j] < epoch[i] || committed[j] < settled[epoch[i]]))
#define HEIRLESS(i) ((V(i) & ~KNOWN(i) & ~leaving) == 0 && !ANY(LAGS, i))
#define CAN_LEAVE(i) (RING(i) && IN(leaving, i) && promised[i] == 0 && committed[i] >= settled[epoch[i]] && \
                      (ANY(HEIR, i) || HEIRLESS(i)))
/* the sponsor of a joiner that is at most one step behind; */
#if JOIN
#define CAN_SPONSOR(i) (RING(i) && promised[i] == 0 && IN(up, J) && !IN(V(i), J) && IN(linked[i], J) && \
                        committed[i] > 0 && !ANY(FAR, i) && epoch[J] <= epoch[i])
#define FAR(i, j) (IN(V(i) & up, j) && committed[j] > committed[J] + 1)
#else
#define CAN_SPONSOR(i) (0)
#endif
/* and whoever waits while nothing is on its way and every loss has been noticed: the retry timer, which is long beside both.
 * It gets a number above all others in the end. */
#define IDLE ((token[0].kind | token[1].kind | token[2].kind | token[3].kind | token[TOKENS - 4].kind | \
              token[TOKENS - 3].kind | token[TOKENS - 2].kind | token[TOKENS - 1].kind) == NONE)
#define UNSEEN(i) (RING(i) && (V(i) & ~BIT(i) & ~gone[i] & ((linked[i] & ~up) | (~linked[i] & ~silent[i]))) != 0)
#define BEHIND(i) ANY(CAN_LEARN, i)
#define OTHER(i, j) (UNSEEN(j) || (LIVE(j) && BEHIND(j)))
#define CAN_RETRY(i) (RING(i) && IDLE && !IN(parked, i) && (promised[i] != 0 || (KNOWN(i) & V(i)) != 0) && \
                      !SOME(OTHER, i))
inline highest(i)
{
    x = promised[i]; y = 0;
    do
    :: y < M && IN(up, y) && epoch[y] == epoch[i] && promised[y] > x -> x = promised[y]
    :: y < M && !(IN(up, y) && epoch[y] == epoch[i] && promised[y] > x) -> y++
    :: else -> break
    od
}

/* ---- the joiner outside the ring ------------------------------------------------------------------------------------ */

/* A donor streams it step s only when s is stable, that is when the donor has committed s + 1. */
#ifdef BUG_STREAM_UNSTABLE
#define READY(d) (committed[d] > committed[J])
#else
#define READY(d) (committed[d] > committed[J] + 1)
#endif
#define CAN_STREAM(d) (JOIN && RING(d) && IN(up, J) && epoch[J] <= epoch[d] && !IN(V(J), J) && IN(linked[d], J) && READY(d))
inline stream(d)
{
    printf("%d streams step %d to the joiner\n", d, committed[J] + 1);
    s = committed[J] + 1;
    committed[J] = s;
    origin[J * 4 + s] = origin[d * 4 + s]
}

/* ---- a member ------------------------------------------------------------------------------------------------------- */

#define UNREAD(t, i, j) (token[t].kind != NONE && token[t].from == (j) && token[t].to == (i))
#define DRAINED(i, j) !(UNREAD(0, i, j) || UNREAD(1, i, j) || UNREAD(2, i, j) || UNREAD(3, i, j) || \
                        UNREAD(TOKENS - 4, i, j) || UNREAD(TOKENS - 3, i, j) || UNREAD(TOKENS - 2, i, j) || \
                        UNREAD(TOKENS - 1, i, j))
/* The end of a process, or the GOODBYE of one that has left or was excluded, and never acts again. With one decision only
 * (SINGLE) the GOODBYE is an option: it multiplies the states, and says nothing that the runs of many steps do not see. */
#if defined(SINGLE) && !defined(FAREWELL)
#define ENDED(j) !IN(up, j)
#else
#define ENDED(j) (!IN(up, j) || IN(out | left, j))
#endif
#define CAN_SEE_DEATH(i, j) (RING(i) && ENDED(j) && IN(V(i) & linked[i] & ~gone[i], j) && !SEPARATE(i, j) && DRAINED(i, j))
#define MISSED(i) (V(i) & ~BIT(i) & ~linked[i] & ~gone[i] & ~silent[i])
#define CAN_DIAL(i, j) (LIVE(i) && IN(up & ~linked[i], j) && (i) < (j) && !SEPARATE(i, j))

/* Choices among the tokens and among the other members, as options of an if. */
#if TOKENS > 5
#define EACH_TOKEN(p, i) :: p(0, i) -> c = 0 :: p(1, i) -> c = 1 :: p(2, i) -> c = 2 :: p(3, i) -> c = 3 :: p(4, i) -> c = 4 \
                         :: p(5, i) -> c = 5 :: p(6, i) -> c = 6 :: p(7, i) -> c = 7
#elif TOKENS > 4
#define EACH_TOKEN(p, i) :: p(0, i) -> c = 0 :: p(1, i) -> c = 1 :: p(2, i) -> c = 2 :: p(3, i) -> c = 3 :: p(4, i) -> c = 4
#else
#define EACH_TOKEN(p, i) :: p(0, i) -> c = 0 :: p(1, i) -> c = 1 :: p(2, i) -> c = 2 :: p(3, i) -> c = 3
#endif
#define THREE(p, i) :: p(i, 0) -> c = 0 :: p(i, 1) -> c = 1 :: p(i, 2) -> c = 2
#if M == 3
#define EACH(p, i) THREE(p, i)
#endif
#if M == 4
#define EACH(p, i) THREE(p, i) :: p(i, 3) -> c = 3
#endif
#if M == 5
#define EACH(p, i) THREE(p, i) :: p(i, 3) -> c = 3 :: p(i, 4) -> c = 4
#endif
#if M == 6
#define EACH(p, i) THREE(p, i) :: p(i, 3) -> c = 3 :: p(i, 4) -> c = 4 :: p(i, 5) -> c = 5
#endif

proctype member(byte i)
{
    byte c = 0;                        /* the choice made; 0 between events */
end:
    do
    :: atomic { if EACH_TOKEN(AT, i) fi; d_step { receive(c, i); c = 0 } }
    :: atomic { if EACH_TOKEN(STALE, i) fi; d_step { clear(c); c = 0 } }
    :: atomic { if EACH_TOKEN(EARLY, i) EACH(CAN_LEARN, i) fi; d_step { install(i); c = 0 } }
    :: atomic { if EACH(CAN_TAKE, i) fi; d_step { take(i, c); c = 0 } }
    :: atomic { if EACH(CAN_SEE_DEATH, i) fi;
        d_step { printf("%d sees the death of %d\n", i, c); gone[i] = gone[i] | BIT(c); parked = 0; c = 0 } }
    :: atomic { if EACH(CAN_DIAL, i) fi;
        d_step {
            printf("link %d-%d is up again\n", i, c);
            linked[i] = linked[i] | BIT(c); linked[c] = linked[c] | BIT(i);
            silent[i] = silent[i] & ~BIT(c); silent[c] = silent[c] & ~BIT(i); parked = 0;
            meet(i, c); meet(c, i); c = 0
        } }
    :: d_step { CAN_COMMIT(i) -> commit(i); skip }
    :: d_step { RING(i) && MISSED(i) != 0 ->
        printf("%d calls the set %d silent\n", i, MISSED(i)); silent[i] = silent[i] | MISSED(i); parked = 0; skip }
    :: d_step { CAN_START(i) -> start(i, promised[i]); skip }
    :: d_step { CAN_RETRY(i) -> highest(i); start(i, x); skip }
#if HASTE
    :: d_step { haste > 0 && RING(i) -> haste--; start(i, promised[i]); skip }
#endif
#if LEAVERS
    :: d_step { CAN_LEAVE(i) -> start(i, promised[i]); skip }
    :: d_step { LIVE(i) && IN(LEAVERS & ~leaving, i) -> leaving = leaving | BIT(i); skip }
#endif
#if JOIN
    :: d_step { CAN_SPONSOR(i) -> start(i, promised[i]); skip }
    :: d_step { i != J && CAN_STREAM(i) -> stream(i); skip }
#endif
    od
}

/* ---- the world ------------------------------------------------------------------------------------------------------ */

#define LOST(t, cond) if :: token[t].kind != NONE && (cond) -> clear(t) :: else -> skip fi

inline lose_all_to(i)
{
    x = 0;
    do
    :: x < TOKENS -> LOST(x, token[x].to == i); x++
    :: else -> break
    od
}

inline lose_all_from(i)
{
    x = 0;
    do
    :: x < TOKENS -> LOST(x, token[x].from == i); x++
    :: else -> break
    od
}

inline lose_across()
{
    x = 0;
    do
    :: x < TOKENS -> LOST(x, SEPARATE(token[x].from, token[x].to)); x++
    :: else -> break
    od
}

inline lose_between(i, j)
{
    x = 0;
    do
    :: x < TOKENS -> LOST(x, IN(BIT(i) | BIT(j), token[x].from) && IN(BIT(i) | BIT(j), token[x].to)); x++
    :: else -> break
    od
}

inline die(i)
{
    printf("%d DIES\n", i);
    crashes--;
    up = up & ~BIT(i);
    parked = parked & ~BIT(i);
    promised[i] = 0; accepted[i] = 0; accepted_view[i] = 0; accepted_step[i] = 0; covered[i] = 0;
    gone[i] = 0; silent[i] = 0; owed[i] = 0;
    lose_all_to(i)
}

#define CAN_DIE(w, i) (crashes > 0 && !calm && LIVE(i) && IN(MORTAL, i))
#define CAN_BREAK(a, b) (downs > 0 && !calm && IN(linked[a], b) && LIVE(a) && LIVE(b))

/* Everybody alive stands in one view and has done all steps; or there is no quorum and the rest waits. */
inline check_end()
{
    e = 0; k = 0;
    do
    :: k < M && LIVE(k) && epoch[k] > e -> e = epoch[k]
    :: k < M && !(LIVE(k) && epoch[k] > e) -> k++
    :: else -> break
    od;
    x = 0; y = 0; k = 0;              /* x: alive in the last view, y: what they can prove together */
    do
    :: k < M && RING(k) && epoch[k] == e -> x = x | BIT(k); y = y | PROOF(k); k++
    :: k < M && !(RING(k) && epoch[k] == e) -> k++
    :: else -> break
    od;
    ok = !ALLOWED(x, y, view[e] & ALL, NAMEABLE(x, view[e] & ALL, e + 1));
#if JOIN
    ok = ok || x == 0 || INCOMPLETE(J, x);
#endif
    k = 0;
    do
    :: k < M ->
#ifdef SINGLE
        assert(!RING(k) || e == 0);
#else
        assert(!LIVE(k) || k >= N || RING(k));            /* an excluded member notices */
#endif
        assert(ok || !RING(k) || epoch[k] == e);
        assert(ok || !RING(k) || promised[k] == 0);
        assert(ok || !RING(k) || committed[k] == STEPS);
        assert(ok || !RING(k) || (KNOWN(k) & V(k)) == 0); /* the dead have been left behind */
        assert(!IN(up, k) || !IN(leaving, k) || ok || IN(left | out, k));
        k++
    :: else -> break
    od
}

#ifdef NO_END                                  /* hunting for a broken promise only: progress is not looked at */
#define ENOUGH end:
#else
#define ENOUGH
#endif
#define PAIR(a, b) :: CAN_BREAK(a, b) -> c = a; d = b
#if M == 3
#define BREAKABLE PAIR(0, 1) PAIR(0, 2) PAIR(1, 2)
#else
#define BREAKABLE PAIR(0, 1) PAIR(0, 2) PAIR(1, 2) PAIR(0, 3) PAIR(1, 3) PAIR(2, 3)
#endif

active proctype world()
{
    byte c = 0, d = 0;
    d_step {
        k = 0;
        do
        :: k < M -> linked[k] = ALL & ~BIT(k); given[k] = (k < N -> 1 : 0); k++
        :: else -> break
        od;
        view[0] = ((1 << N) - 1) | MADE; skip
    }
    atomic {
        run member(0); run member(1); run member(2);
#if M > 3
        run member(3);
#endif
#if M > 4
        run member(4);
#endif
#if M > 5
        run member(5);
#endif
    }
ENOUGH
    do
    :: atomic { if EACH(CAN_DIE, 0) fi;
        if
        :: d_step { die(c); c = 0 }
        :: d_step { die(c); lose_all_from(c); c = 0 }      /* what it had just sent dies with it */
        fi }
#if DOWNS
    :: atomic { if BREAKABLE fi;
        d_step {
            printf("link %d-%d BREAKS\n", c, d); downs--;
            linked[c] = linked[c] & ~BIT(d); linked[d] = linked[d] & ~BIT(c); lose_between(c, d); c = 0; d = 0
        } }
#endif
#if CUT
    :: d_step { cuts && !calm -> printf("the network PARTS: %d\n", CUT); cuts = 0; cut = CUT; lose_across();
        k = 0;
        do
        :: k < M -> linked[k] = linked[k] & ((IN(CUT, k) -> CUT : (ALL & ~CUT)) | (IN(BRIDGE, k) -> BRIDGE : 0)); k++
        :: else -> break
        od; skip }
    :: d_step { cut != 0 -> printf("the network heals\n"); cut = 0; skip }
#endif
#ifndef NO_END
    :: d_step { !calm && IDLE -> calm = 1; skip }
    :: timeout -> d_step { check_end(); skip }; break
#endif
    od
}
