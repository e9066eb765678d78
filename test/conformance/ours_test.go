package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/replication"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// endOfRows is the table whose first row comes after all others.
const endOfRows = "end_of_rows"

// subject is our side: a slot of its own, and a router per case.
type subject struct {
	db      *testkit.Database
	routers map[string]*routed // by table
	commit  time.Time          // of the transaction being read
}

// routed is what became of a case.
type routed struct {
	router   router.Router
	refused  error
	outcomes []outcome
}

// newSubject makes slot and publication, before there are rows. The connector's publication has no more than inserts;
// this one shows what else happens to the tables, so that rows can be counted as Debezium counts them.
func newSubject(t *testing.T, db *testkit.Database, cases []*testCase) *subject {
	t.Helper()
	db.Exec(t, fmt.Sprintf("CREATE TABLE %s (id int PRIMARY KEY); CREATE PUBLICATION %s FOR ALL TABLES", endOfRows,
		db.Publication))
	db.Exec(t, fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'pgoutput')", db.Slot))
	s := &subject{db: db, routers: map[string]*routed{}}
	for _, c := range cases {
		r := &routed{}
		r.router, r.refused = newRouter(t, c, db.DSN)
		s.routers[c.table] = r
	}
	return s
}

// read routes every row up to the last one.
func (s *subject) read(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	err := replication.Run(ctx, replication.Config{
		DSN:  func() (string, error) { return s.db.DSN, nil },
		Slot: s.db.Slot, Publication: s.db.Publication, Tables: []identifier.Table{{Schema: "public", Name: endOfRows}},
		Confirmed: func() lsn.LSN { return 0 },
	}, func(_ context.Context, stream *replication.Stream) error {
		for {
			m, err := stream.Receive()
			if err != nil {
				return err
			}
			if done := s.handle(m); done {
				return nil
			}
		}
	})
	require.NoError(t, err)
	require.NoError(t, ctx.Err())
}

func (s *subject) handle(m *pgoutput.Message) (done bool) {
	switch m.Kind {
	case pgoutput.KindBegin:
		s.commit = m.Begin.CommitTime
	case pgoutput.KindInsert:
		if m.Relation.Name == endOfRows {
			return true
		}
		s.add(m.Relation, s.route(m))
	case pgoutput.KindUpdate:
		s.add(m.Relation, outcome{Fate: "dropped: u"})
	case pgoutput.KindDelete:
		s.add(m.Relation, outcome{Fate: "dropped: d"})
	}
	return false
}

func (s *subject) add(rel *pgoutput.Relation, o outcome) {
	r := s.routers[rel.Namespace+"."+rel.Name]
	r.outcomes = append(r.outcomes, o)
}

func (s *subject) route(m *pgoutput.Message) outcome {
	r := s.routers[m.Relation.Namespace+"."+m.Relation.Name]
	if r.refused != nil {
		return outcome{Fate: refusedAtStart + refusedObject(r.refused)}
	}
	if err := r.router.Prepare(m.Relation); err != nil {
		return outcome{Fate: "halts: " + oneLine(err.Error())}
	}
	record, err := r.router.Route(m.Relation, m.Tuple, router.Source{
		Position: []byte("position"), CommitTime: s.commit,
	})
	if bad := (*router.RowError)(nil); errors.As(err, &bad) {
		return outcome{
			Fate: strings.TrimSuffix(fmt.Sprintf("halts: %s, column %s", bad.Reason, bad.Column), ", column "),
		}
	}
	if err != nil {
		return outcome{Fate: "halts: " + oneLine(err.Error())}
	}
	return fromRecord(record, s.commit)
}

// refusedObject is the part of a refusal that stays when its words are improved.
func refusedObject(err error) string {
	if f := (*fault.Error)(nil); errors.As(err, &f) {
		return "key " + f.Object
	}
	return oneLine(err.Error())
}

// fromRecord copies what belongs to the router. The commit's time is used where Debezium takes its own clock's.
func fromRecord(r *router.Record, commit time.Time) outcome {
	o := outcome{Topic: r.Topic, Key: clone(r.Key), Value: clone(r.Value)}
	if p := r.Partition; p >= 0 {
		o.Partition = &p
	}
	if ts := r.Timestamp; ts != commit.UnixMilli() {
		o.Timestamp = &ts
	}
	for _, h := range r.Headers {
		o.Headers = append(o.Headers, header{h.Key, clone(h.Value)})
	}
	return o
}

// clone keeps apart null and empty.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}
