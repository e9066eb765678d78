package oracle

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Sample is the relay's slot at one moment, and what Kafka held right after it.
type Sample struct {
	At        time.Time
	Server    time.Time // when the server was started: another one, another run
	Confirmed LSN
	Restart   LSN
	Ends      map[string][]int64 // topic to end offset by partition; nil: Kafka did not answer
}

// CheckSlot checks S and M: at no sampled moment had the slot passed the end of a transaction one of whose rows was not
// in Kafka right afterwards, and it never fell while the server ran. truth and records are the same as for Check,
// samples in time order.
func CheckSlot(rep *Report, truth []Row, records []Record, samples []Sample) {
	rep.Samples += len(samples)
	for i, s := range samples {
		if s.Confirmed == 0 {
			rep.add(Fallen, "%s: the slot has no position", s.At.Format(time.TimeOnly))
		}
		if i > 0 && s.Server.Equal(samples[i-1].Server) && s.Confirmed < samples[i-1].Confirmed {
			rep.add(Fallen, "%s: from %s to %s", s.At.Format(time.TimeOnly), samples[i-1].Confirmed, s.Confirmed)
		}
	}
	type place struct {
		partition int32
		offset    int64
	}
	first := make(map[string]place, len(truth))
	for i := range records {
		r := &records[i]
		if p, ok := first[r.ID]; !ok || r.Offset < p.offset {
			first[r.ID] = place{r.Partition, r.Offset}
		}
	}
	rows := slices.Clone(truth)
	slices.SortStableFunc(rows, func(a, b Row) int {
		if a.End < b.End {
			return -1
		}
		return 1
	})
	// rows before it were passed by an earlier sample: Kafka's ends never fall, so the first one that passes a row is
	// the strictest
	next := 0
	for i := range samples {
		s := &samples[i]
		if s.Ends == nil {
			continue
		}
		for ; next < len(rows) && rows[next].End <= s.Confirmed; next++ {
			row := &rows[next]
			p, ok := first[row.ID]
			ends := s.Ends[row.Topic]
			if !ok || int(p.partition) >= len(ends) || p.offset >= ends[p.partition] {
				rep.add(Overtaken, "%s: the slot is confirmed to %s, row %s of the transaction that ends at %s is "+
					"not in Kafka", s.At.Format("15:04:05.000"), s.Confirmed, row.ID, row.End)
			}
		}
	}
}

// Sampler watches a slot until it is stopped.
type Sampler struct {
	dsn, slot string
	ends      func(context.Context) map[string][]int64
	stop      context.CancelFunc
	done      chan struct{}
	samples   []Sample
}

// sampleEvery is how often the slot is looked at. Kafka is asked only when the slot has moved.
const sampleEvery = 20 * time.Millisecond

// Watch starts sampling; ends asks Kafka for the end offsets by topic and partition, nil when it does not answer. It
// samples over a connection of its own; neither a Postgres nor a Kafka that is away stops it.
func Watch(dsn, slot string, ends func(context.Context) map[string][]int64) *Sampler {
	ctx, stop := context.WithCancel(context.Background())
	s := &Sampler{dsn: dsn, slot: slot, ends: ends, stop: stop, done: make(chan struct{})}
	go s.run(ctx)
	return s
}

// Stop ends the sampling and returns the samples, in time order.
func (s *Sampler) Stop() []Sample {
	s.stop()
	<-s.done
	return s.samples
}

func (s *Sampler) run(ctx context.Context) {
	defer close(s.done)
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			conn.Close(context.Background())
		}
	}()
	for ctx.Err() == nil {
		if conn == nil {
			conn, _ = pgx.Connect(ctx, s.dsn)
		}
		if conn != nil && s.readSlot(ctx, conn) != nil && conn.IsClosed() {
			conn = nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(sampleEvery):
		}
	}
}

func (s *Sampler) readSlot(ctx context.Context, conn *pgx.Conn) error {
	var confirmed, restart *uint64
	sample := Sample{}
	err := conn.QueryRow(ctx,
		`SELECT (confirmed_flush_lsn - '0/0')::bigint, (restart_lsn - '0/0')::bigint, pg_postmaster_start_time()
		FROM pg_replication_slots WHERE slot_name = $1`, s.slot).Scan(&confirmed, &restart, &sample.Server)
	if err != nil {
		return err // no row: the relay has not created it yet
	}
	if confirmed != nil {
		sample.Confirmed = LSN(*confirmed)
	} else if len(s.samples) == 0 {
		return nil // being created
	}
	if restart != nil {
		sample.Restart = LSN(*restart)
	}
	if n := len(s.samples); n > 0 {
		last := &s.samples[n-1]
		if last.Confirmed == sample.Confirmed && last.Server.Equal(sample.Server) && last.Ends != nil {
			last.At, last.Restart = time.Now(), sample.Restart
			return nil
		}
	}
	ask, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	sample.Ends = s.ends(ask)
	sample.At = time.Now()
	s.samples = append(s.samples, sample)
	return nil
}
