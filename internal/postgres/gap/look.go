package gap

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
)

const (
	// idleWAL and idleTime are how far the log, or the time, has to go on before a check that found nothing is written
	// down: each write is WAL, and an idle database has to come to rest.
	idleWAL  = 64 << 10
	idleTime = 10 * time.Minute
)

// seen is what one statement, hence one snapshot, shows.
type seen struct {
	SystemID string    `json:"system_id"`
	LSN      string    `json:"lsn"` // where the log ended after the snapshot was taken
	Now      time.Time `json:"now"`
	Oldest   uint64    `json:"oldest"` // number of the oldest transaction that runs
	Next     uint64    `json:"next"`   // of the next one
	Evidence Evidence  `json:"evidence"`
	Whole    *whole    `json:"whole"`
	Open     []Gap     `json:"open"`
	Position *string   `json:"position"` // of the checkpoint; nil: it has no row of the slot
	Slot     *string   `json:"slot"`     // the slot's confirmed position; nil: not known here

	lost []Lost
}

// whole is the row that is not a gap.
type whole struct {
	ID       int64     `json:"id"`
	SystemID string    `json:"system_id"`
	FromLSN  string    `json:"from_lsn"`
	FromAt   time.Time `json:"from_at"`
	ToLSN    string    `json:"to_lsn"`
	ToAt     time.Time `json:"to_at"`
	Evidence Evidence  `json:"evidence"`
	Mark     mark      `json:"mark"`
	Revision int64     `json:"revision"`
}

const seenSQL = `SELECT jsonb_build_object(
	'system_id', (SELECT system_identifier::text FROM pg_catalog.pg_control_system()), 'now', clock_timestamp(),
	'oldest', pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
	'next', pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
	'evidence', %[1]s,
	'whole', (SELECT to_jsonb(g) FROM %[2]s g WHERE slot = $4::text AND cause = 'none'),
	'open', %[3]s,
	'position', (SELECT position FROM %[4]s WHERE slot = $4::text),
	'slot', (SELECT confirmed_flush_lsn FROM pg_catalog.pg_replication_slots WHERE slot_name = $4::text),
	'lsn', pg_current_wal_insert_lsn())::text`

// Look compares the evidence with the last check's, writes down what differs, and returns the open gaps. hides is why
// rows are missing from the stream as things are now, empty if none are. starts says that nothing is streamed yet: a
// checkpoint without a row of the slot then means that the slot is another one, or that its row was deleted.
//
// conn leads to the server that is written, which for a slot on a standby is the primary. Checks by several processes
// at the same time are allowed.
func (t Table) Look(ctx context.Context, conn *pgx.Conn, hides string, starts bool) ([]Gap, error) {
	return t.look(ctx, conn, hides, starts, false)
}

// BeginAccount is the first check of a slot's publication. made says that the slot was made a moment ago. Where it is
// on this server, its account then begins at the slot's position: if it is lost before anything was confirmed from it,
// it is known when that gap began. On a standby that lags, a new slot may be at a position of hours ago.
func (t Table) BeginAccount(ctx context.Context, conn *pgx.Conn, made bool) error {
	_, err := t.look(ctx, conn, "", false, made)
	return err
}

// madeWithin is how long ago, at most, a slot was made when its account begins.
const madeWithin = time.Minute

func (t Table) look(ctx context.Context, conn *pgx.Conn, hides string, starts, made bool) ([]Gap, error) {
	var begin string
	var m mark
	// First the mark's position, then the transactions: one that gets a number in between begins after it.
	err := conn.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text, clock_timestamp()`).Scan(&begin, &m.At)
	if err != nil {
		return nil, err
	}
	s, err := t.see(ctx, conn)
	if err != nil {
		return nil, err
	}
	at, err := lsn.Parse(begin)
	if err != nil {
		return nil, err
	}
	m.LSN, m.Next = uint64(at), s.Next
	if made && s.Slot != nil && position(*s.Slot) < m.LSN {
		m.LSN, m.At = position(*s.Slot), m.At.Add(-madeWithin)
	}
	step := s.plan(m, t.Objects.PublicationSubject(), hides, starts)
	if !step.write {
		return s.Open, nil
	}
	opened, err := t.apply(ctx, conn, s, step)
	if err != nil {
		return nil, err
	}
	if opened && step.lost && t.Publisher != nil {
		t.Publisher.Kept(s.lost)
	}
	return t.Open(ctx, conn)
}

func (t Table) see(ctx context.Context, conn *pgx.Conn) (s seen, err error) {
	schemas, names := []string{}, []string{}
	for _, table := range t.Objects.Tables {
		schemas, names = append(schemas, table.Schema), append(names, table.Name)
	}
	var text []byte
	err = conn.QueryRow(ctx, fmt.Sprintf(seenSQL, evidenceQuery(major(conn)), t.Name.SQL(), t.openSQL("$4::text"),
		t.Objects.Checkpoint.SQL()), t.Objects.Publication, schemas, names, t.Objects.Slot).Scan(&text)
	if err != nil {
		return s, err
	}
	if err = json.Unmarshal(text, &s); err != nil {
		return s, err
	}
	// The publisher is asked last: a record that it has in flight by then is not before the account's from.
	last := Kafka{}
	if w := s.Whole; w != nil {
		last.ID, last.Ends = w.Evidence.Kafka, w.Evidence.Ends
	}
	now := last
	if t.Publisher != nil {
		now = t.Publisher.Kafka(last)
	}
	s.Evidence.Kafka, s.Evidence.Ends, s.lost = cmp.Or(now.ID, last.ID), bounded(now.Ends), now.Lost
	return s, nil
}

// major is the server's major version, 0 where it does not say.
func major(conn *pgx.Conn) (n int) {
	for _, digit := range conn.PgConn().ParameterStatus("server_version") {
		if digit < '0' || digit > '9' {
			break
		}
		n = n*10 + int(digit-'0')
	}
	return n
}

// step is what a check changes.
type step struct {
	write    bool
	evidence *Evidence // the account's new one
	from     *mark     // the account's new from
	mark     mark
	gap      *Gap  // opened
	lost     bool  // it is over what Kafka has lost
	ended    int64 // id of a gap that lasted until now
}

// plan is pure. The account goes on only while nothing hides rows.
func (s *seen) plan(look mark, publication, hides string, starts bool) step {
	st := s.elsewhere(look)
	if st.write {
		return st
	}
	w := s.Whole
	if len(s.lost) > 0 {
		// Whatever else differs is the next check's.
		evidence := w.Evidence
		evidence.Ends = s.Evidence.Ends
		return step{write: true, evidence: &evidence, mark: w.Mark, gap: s.lostRecords(), lost: true}
	}
	end, confirmed := position(s.LSN), uint64(0)
	if s.Position != nil {
		confirmed = position(*s.Position)
	}
	var from *mark
	st.mark, from = w.Mark.advance(look, s.Oldest, end, confirmed)
	lasting := s.lasting()
	differs := w.Evidence.Hides(s.Evidence)
	remade := starts && s.remade()
	switch {
	case hides != "" && lasting != nil:
		return step{}
	case lasting != nil:
		st.write, st.evidence, st.ended = true, &s.Evidence, lasting.ID
	case hides != "":
		st.write, st.mark = true, w.Mark
		st.gap = s.gapFrom(Unpublished, hides)
	case remade:
		st.write, st.evidence = true, &s.Evidence
		st.gap = s.gapFrom(SlotRemade, "the slot, or what was remembered of it, no longer existed; the slot is "+
			"another one now, or "+
			"may have been moved")
		st.gap.ToLSN, st.gap.ToAt = s.LSN, &s.Now
	case differs != "":
		st.write, st.evidence = true, &s.Evidence
		st.gap = s.gapFrom(PublicationChanged, publication+": "+differs)
		st.gap.ToLSN, st.gap.ToAt = s.LSN, &s.Now
	default:
		st.from = from
		if !w.Evidence.same(s.Evidence) {
			st.evidence = &s.Evidence
		}
		st.write = st.evidence != nil || end > position(w.ToLSN)+idleWAL || s.Now.Sub(w.ToAt) > idleTime
	}
	return st
}

// elsewhere begins an account on another cluster of Postgres, and opens a gap over all that another cluster of Kafka
// has: that covers whatever was hidden before.
func (s *seen) elsewhere(look mark) (st step) {
	w := s.Whole
	if w == nil || w.SystemID != s.SystemID {
		st = step{write: true, evidence: &s.Evidence, from: &look, mark: look}
	}
	if w != nil && w.Evidence.Kafka != "" && w.Evidence.Kafka != s.Evidence.Kafka {
		if !st.write {
			st = step{write: true, evidence: &s.Evidence, mark: w.Mark}
		}
		st.gap = s.lostKafka()
	}
	return st
}

// lostKafka is the gap over all that was published to another cluster than the present one.
func (s *seen) lostKafka() *Gap {
	return &Gap{
		Cause: KafkaReplaced, SystemID: s.SystemID, ToLSN: s.LSN, ToAt: &s.Now,
		What: fmt.Sprintf("records go to the cluster %q now, and what was published before went to the cluster %q",
			s.Evidence.Kafka, s.Whole.Evidence.Kafka),
	}
}

func (s *seen) gapFrom(cause, what string) *Gap {
	return &Gap{
		Cause: cause, What: what, SystemID: s.SystemID, FromLSN: s.Whole.FromLSN, FromAt: &s.Whole.FromAt,
	}
}

// remade reports whether the checkpoint has no row of a slot that has moved: a slot from which nothing was ever
// confirmed is where it was when its account began. An earlier start that ended before it confirmed anything may have
// opened the gap.
func (s *seen) remade() bool {
	return s.Position == nil && s.Slot != nil && position(*s.Slot) > position(s.Whole.FromLSN) &&
		!slices.ContainsFunc(s.Open, func(g Gap) bool {
			return g.Cause == SlotRemade && position(g.ToLSN) >= position(*s.Slot)
		})
}

// lasting is the open gap in which rows are still being hidden, as far as is written down.
func (s *seen) lasting() *Gap {
	for i := range s.Open {
		if s.Open[i].Lasts() {
			return &s.Open[i]
		}
	}
	return nil
}

func position(text string) uint64 {
	p, err := lsn.Parse(text)
	if err != nil {
		return 0 // the server has printed it
	}
	return uint64(p)
}

// apply writes the step in one statement, so that it is done as a whole, and once: another process that has checked
// meanwhile has written another revision. It reports whether the step's gap was opened.
func (t Table) apply(ctx context.Context, conn *pgx.Conn, s seen, st step) (opened bool, err error) {
	var evidence []byte
	if st.evidence != nil {
		if evidence, err = json.Marshal(st.evidence); err != nil {
			return false, err
		}
	}
	text, err := json.Marshal(st.mark)
	if err != nil {
		return false, err
	}
	if s.Whole == nil {
		_, err := conn.Exec(ctx, fmt.Sprintf(`INSERT INTO %s (slot, cause, system_id, from_lsn, from_at, to_lsn, to_at,
				evidence, mark)
			VALUES ($1::text, 'none', $2::text, $3::text::pg_lsn, $4::timestamptz, $5::text::pg_lsn, $6::timestamptz,
				$7::text::jsonb, $8::text::jsonb) ON CONFLICT DO NOTHING`, t.Name.SQL()), t.Objects.Slot, s.SystemID,
			lsn.LSN(st.from.LSN).String(), st.from.At, s.LSN, s.Now, string(evidence), string(text))
		return false, err
	}
	var kept, from *string
	var fromAt *time.Time
	if st.evidence != nil {
		kept = new(string(evidence))
	}
	if st.from != nil {
		from, fromAt = new(lsn.LSN(st.from.LSN).String()), &st.from.At
	}
	g := Gap{}
	if st.gap != nil {
		g = *st.gap
	}
	tag, err := conn.Exec(ctx, fmt.Sprintf(`WITH moved AS (
			UPDATE %[1]s SET system_id = $3::text, to_lsn = $4::text::pg_lsn, to_at = $5::timestamptz,
				evidence = coalesce($6::text::jsonb, evidence), mark = $7::text::jsonb,
				from_lsn = coalesce($8::text::pg_lsn, from_lsn), from_at = coalesce($9::timestamptz, from_at),
				revision = revision + 1
			WHERE id = $1::bigint AND revision = $2::bigint RETURNING slot),
		ended AS (
			UPDATE %[1]s SET to_lsn = $4::text::pg_lsn, to_at = $5::timestamptz
			WHERE id = $10::bigint AND EXISTS (SELECT FROM moved))
		INSERT INTO %[1]s (slot, cause, what, system_id, from_lsn, from_at, to_lsn, to_at)
		SELECT slot, $11::text, $12::text, $3::text, $13::text::pg_lsn, $14::timestamptz, $15::text::pg_lsn,
			$16::timestamptz FROM moved WHERE $11::text <> ''`, t.Name.SQL()),
		s.Whole.ID, s.Whole.Revision, s.SystemID, s.LSN, s.Now, kept, string(text), from, fromAt, st.ended,
		g.Cause, g.What, null(g.FromLSN), g.FromAt, null(g.ToLSN), g.ToAt)
	return tag.RowsAffected() > 0, err
}
