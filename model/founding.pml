/* SPDX-License-Identifier: Apache-2.0 */
/* Founding a job on a store with conditional writes: genesis-<n> is made by one process, and what follows from that where
 * answers are lost and requests are carried out late. See README.md; the rules: docs/design/0002-finding-the-job.md and
 * 0041-stores.md; the sources: src/discovery/directory.c, founding_record.c, watcher.c, src/runtime/lease.c.
 *
 *     spin -a [-DN=3] [-DCRASHES=1] [-DPAUSES=1] [-DLATE_PUTS=1] [-DLATE_DELETES=1] [-DTRIES=3] founding.pml
 *
 * A pause is longer than T: the process does nothing, and its record is stale. Shorter ones are every order of steps. */
#ifndef N
#define N 3
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef PAUSES
#define PAUSES 0
#endif
#ifndef LATE_PUTS
#define LATE_PUTS 0
#endif
#ifndef LATE_DELETES
#define LATE_DELETES 0
#endif
#ifndef TRIES
#define TRIES 3 /* foundings that are begun */
#endif

/* the store: genesis-<n> holds its maker and the random number of the founding, 0: there is none */
byte number[TRIES + 2], maker[TRIES + 2];
byte wrote[N]; /* a record that names a lineage was written anew: by one that was stale, or that joins */
byte says[N];  /* the generation in a record */

/* requests that were given up, or sent again, and are still on their way */
byte late_put, late_put_at, late_put_by, late_delete_at, late_puts = LATE_PUTS, late_deletes = LATE_DELETES;

/* processes */
bool dead[N], paused[N];
byte view[N], founding[N]; /* generation and number of the lineage that it is in, 0: none */
bool barred[N];            /* it commits nothing before it has looked */
bool cycle[N] = true;      /* it has written its record since its last pause, and then looks */
byte next = 1, crashes = CRASHES, pauses = PAUSES;

/* what was promised */
byte committed, committed_at; /* the founding that committed last, and its generation */
byte founded[TRIES + 2];      /* which founding went on by genesis-<n> */

inline highest(top)
{
    d_step {
        top = TRIES + 1;
        do
        :: top > 0 && number[top] == 0 -> top--
        :: else -> break
        od
    }
}

inline put_if_absent(at, what, by)
{
    if
#ifdef BUG_UNCONDITIONAL
    :: true -> number[at] = what; maker[at] = by
#else
    :: number[at] == 0 -> number[at] = what; maker[at] = by
    :: else
#endif
    fi
}

active proctype network()
{
    do
    :: atomic { late_put != 0 -> put_if_absent(late_put_at, late_put, late_put_by);
               printf("genesis-%d is put late\n", late_put_at); late_put = 0; late_put_at = 0; late_put_by = 0 }
    :: atomic { late_delete_at != 0 -> number[late_delete_at] = 0; printf("genesis-%d is deleted late\n", late_delete_at);
               maker[late_delete_at] = 0; late_delete_at = 0 }
    od
}

active proctype faults()
{
    byte who, sleeper = N;
    do
    :: atomic { crashes > 0 -> crashes--; select(who : 0 .. N - 1); printf("%d dies\n", who);
               dead[who] = true; view[who] = 0; founding[who] = 0; who = 0 }
    :: atomic { pauses > 0 && sleeper == N -> pauses--; select(sleeper : 0 .. N - 1); printf("%d is paused\n", sleeper);
               paused[sleeper] = true; barred[sleeper] = true; cycle[sleeper] = false }
    :: atomic { sleeper < N -> paused[sleeper] = false; printf("%d goes on\n", sleeper); sleeper = N }
    od
}

/* A member writes its record, then looks for a younger founding. A founder does it the other way round. */
inline refresh()
{
    d_step { says[me] = view[me]; wrote[me] = (cycle[me] -> wrote[me] : wrote[me] + 1); cycle[me] = true }
}

inline guard()
{
    highest(top);
    d_step {
        if
        :: top >= view[me] && number[top] != founding[me] ->
            printf("%d sees genesis-%d, and ends\n", me, top);
            view[me] = 0; founding[me] = 0; ended = true
        :: else -> barred[me] = !cycle[me]
        fi;
        top = 0
    }
}

inline commit()
{
    d_step {
        assert(founding[me] == committed || view[me] > committed_at
               || (view[me] == committed_at && late_deletes < LATE_DELETES)); /* two lineages go on */
        printf("%d commits in founding %d, generation %d\n", me, founding[me], view[me]);
        committed = founding[me]; committed_at = view[me]
    }
}

/* May `other` live in a view, or be about to? It answers, or its record changes, unless it is paused or dead. */
inline judge()
{
    saw[other] = wrote[other];
    if
    :: says[other] > seen -> free = false /* its genesis is missing */
    :: else
    fi;
    if
    :: dead[other] || paused[other]
    :: else ->
        if
        :: view[other] != 0 && view[other] >= seen -> free = false; sponsor = other + 1
#ifndef BUG_PAST_BLOCKS_NOTHING
        :: view[other] != 0 && view[other] < seen -> free = false /* it has not seen the younger founding yet */
#endif
        :: view[other] == 0 && seen != 0 && maker[seen] == other + 1 -> free = false /* its maker founds */
        :: else
        fi
    fi
}

inline look()
{
    highest(seen);
    d_step {
        free = true;
        do
        :: other < N && other != me -> judge(); other++
        :: other == me -> other++
        :: other == N -> break
        od;
        other = 0
    }
}

inline join()
{
    d_step { lineage = founding[sponsor - 1]; at = view[sponsor - 1] }
    if
    :: at != 0 ->
        d_step { says[me] = at; wrote[me]++ }
        highest(top);
        atomic {
            if
            :: top <= at && founding[sponsor - 1] == lineage && !paused[sponsor - 1] && !barred[sponsor - 1] ->
                printf("%d joins founding %d\n", me, lineage);
                view[me] = at; founding[me] = lineage; barred[me] = false
            :: else -> says[me] = 0
            fi
        }
    :: else
    fi;
    at = 0; lineage = 0; sponsor = 0; top = 0
}

/* The answer may be lost, and the request sent again: then the process reads whose record there is. */
inline put()
{
    made = false;
    if
    :: atomic { true -> put_if_absent(seen + 1, mine, me + 1); made = (number[seen + 1] == mine) }
    :: atomic { true -> put_if_absent(seen + 1, mine, me + 1) };
#ifdef BUG_ANOTHERS_IS_OURS
       made = (number[seen + 1] != 0)
#else
       made = (number[seen + 1] == mine)
#endif
    :: atomic { late_puts > 0 -> late_puts--; late_put = mine; late_put_at = seen + 1; late_put_by = me + 1 };
       if
       :: atomic { true -> put_if_absent(seen + 1, mine, me + 1); made = (number[seen + 1] == mine) }
#ifdef BUG_FOUNDS_WITHOUT_ANSWER
       :: made = true
#else
       :: true /* given up */
#endif
       fi
    fi
}

inline take_back()
{
    if
    :: number[seen + 1] == mine ->
        if
        :: true
        :: atomic { late_deletes > 0 -> late_deletes--; late_delete_at = seen + 1 }
        fi;
        d_step { number[seen + 1] = 0; maker[seen + 1] = 0; printf("%d takes genesis-%d back\n", me, seen + 1) }
    :: else
    fi
}

inline has_woken()
{
    highest(top);
    d_step {
        woken = (top != seen + 1);
        other = 0;
        do
        :: other < N -> woken = (woken || (other != me && wrote[other] != saw[other])); other++
        :: else -> break
        od;
        top = 0
    }
}

inline found()
{
    d_step { mine = next; next++ }
    highest(top);
    if
    :: top != seen
    :: else ->
        put();
        if
        :: made ->
#ifdef BUG_NO_SECOND_LOOK
            woken = false;
#else
            has_woken();
#endif
            if
            :: woken -> take_back()
            :: else ->
                d_step {
                    assert(founded[seen + 1] == 0 || late_deletes < LATE_DELETES); /* two foundings of one generation */
                    printf("%d founds by genesis-%d, founding %d\n", me, seen + 1, mine);
                    founded[seen + 1] = mine;
                    view[me] = seen + 1; founding[me] = mine
                }
            fi
        :: else
        fi
    fi;
    d_step { mine = 0; made = false; woken = false; top = 0 }
}

proctype process(byte me) provided (!dead[me] && !paused[me])
{
    byte seen, other, sponsor, top, mine, at, lineage, saw[N];
    bool free, made, woken, ended;
    do
    :: view[me] != 0 && (!cycle[me] || says[me] != view[me]) -> refresh()
    :: view[me] != 0 -> guard()
#ifdef BUG_NO_BAR
    :: atomic { view[me] != 0 -> commit() }
#else
    :: atomic { view[me] != 0 && !barred[me] -> commit() }
#endif
    :: view[me] == 0 && !ended && next <= TRIES ->
        look();
        if
        :: sponsor != 0 -> join()
        :: free && next <= TRIES -> found()
        :: else
        fi;
        d_step {
            seen = 0; sponsor = 0; free = false; other = 0;
            do :: other < N -> saw[other] = 0; other++ :: else -> break od;
            other = 0
        }
    :: ended -> break
    :: view[me] == 0 && next > TRIES -> break
    od
}

init
{
    byte i;
    atomic {
        do
        :: i < N -> run process(i); i++
        :: else -> break
        od
    }
}
