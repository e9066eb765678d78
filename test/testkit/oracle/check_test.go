package oracle

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// log makes a history of ten rows on two keys in one partition, two rows a transaction, and what a faultless relay
// publishes for it.
func log() (truth []Row, records []Record) {
	for i := range 10 {
		r := Row{
			ID: fmt.Sprintf("id-%d", i), Topic: "t", Key: fmt.Sprintf("k%d", i%2),
			Value: fmt.Appendf(nil, `{"n": %d}`, i), Commit: LSN(100 * (i/2 + 1)), End: LSN(100*(i/2+1) + 50),
			Index: i % 2,
		}
		truth = append(truth, r)
		records = append(records, Record{
			Topic: "t", Offset: int64(i), Key: []byte(r.Key), Value: r.Value, ID: r.ID, Position: r.Position(),
		})
	}
	return truth, records
}

// pick re-orders and repeats records by their index; offsets follow.
func pick(records []Record, order ...int) []Record {
	var out []Record
	for o, i := range order {
		r := records[i]
		r.Offset = int64(o)
		out = append(out, r)
	}
	return out
}

func TestCheckCatches(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil      func(truth *[]Row, records *[]Record)
		want       map[Kind]int
		duplicates int
		rewinds    int
	}{
		"nothing in a faultless log": {spoil: func(*[]Row, *[]Record) {}},
		"a lost row": {
			spoil: func(_ *[]Row, r *[]Record) { *r = pick(*r, 0, 1, 2, 4, 5, 6, 7, 8, 9) },
			want:  map[Kind]int{Lost: 1},
		},
		"a phantom": {
			spoil: func(tr *[]Row, _ *[]Record) { *tr = append((*tr)[:3], (*tr)[4:]...) },
			want:  map[Kind]int{Phantom: 1},
		},
		"no id": {spoil: func(_ *[]Row, r *[]Record) { (*r)[9].ID = "" }, want: map[Kind]int{Phantom: 1, Lost: 1}},
		"a contiguous rewind is none": {
			spoil: func(_ *[]Row, r *[]Record) { *r = pick(*r, 0, 1, 2, 3, 4, 2, 3, 4, 5, 6, 7, 8, 9) }, duplicates: 3,
			rewinds: 1,
		},
		"rewinds within rewinds are none": {
			spoil: func(_ *[]Row, r *[]Record) {
				*r = pick(*r, 0, 1, 2, 3, 4, 1, 2, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9)
			},
			duplicates: 7, rewinds: 3,
		},
		"an old row in between": {
			spoil: func(_ *[]Row, r *[]Record) { *r = pick(*r, 0, 1, 2, 3, 4, 5, 2, 6, 7, 8, 9) },
			want:  map[Kind]int{Stale: 1}, duplicates: 1, rewinds: 1,
		},
		"an old row at the end": {
			spoil: func(_ *[]Row, r *[]Record) { *r = pick(*r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 4) },
			want:  map[Kind]int{Stale: 1}, duplicates: 1, rewinds: 1,
		},
		"a rewind with a hole": {
			spoil: func(_ *[]Row, r *[]Record) { *r = pick(*r, 0, 1, 2, 3, 4, 1, 2, 4, 5, 6, 7, 8, 9) },
			want:  map[Kind]int{Stale: 1}, duplicates: 3, rewinds: 1,
		},
		"two rows of a key swapped": {
			spoil: func(_ *[]Row, r *[]Record) { *r = pick(*r, 0, 1, 4, 3, 2, 5, 6, 7, 8, 9) },
			want:  map[Kind]int{Inverted: 1, Shuffled: 1, Stale: 1}, rewinds: 2,
		},
		"two rows of different keys swapped": {
			spoil: func(_ *[]Row, r *[]Record) { *r = pick(*r, 0, 1, 2, 4, 3, 5, 6, 7, 8, 9) },
			want:  map[Kind]int{Shuffled: 1, Stale: 1}, rewinds: 1,
		},
		"a re-printed value": {
			spoil: func(_ *[]Row, r *[]Record) { (*r)[5].Value = []byte(`{"n":5}`) }, want: map[Kind]int{Corrupted: 1},
		},
		"an empty value for NULL": {
			spoil: func(tr *[]Row, r *[]Record) { (*tr)[5].Value, (*r)[5].Value = nil, []byte{} },
			want:  map[Kind]int{Corrupted: 1},
		},
		"another key": {
			spoil: func(_ *[]Row, r *[]Record) { (*r)[5].Key = []byte("k0") }, want: map[Kind]int{Corrupted: 1},
		},
		"another position": {
			spoil: func(_ *[]Row, r *[]Record) { (*r)[5].Position = (*r)[6].Position },
			want:  map[Kind]int{Corrupted: 1},
		},
		"another topic": {
			spoil: func(tr *[]Row, _ *[]Record) { (*tr)[9].Topic = "other" }, want: map[Kind]int{Misplaced: 1},
		},
		"another partition": {
			spoil: func(_ *[]Row, r *[]Record) { (*r)[9].Partition = 1; (*r)[9].Offset = 0 },
			want:  map[Kind]int{Misplaced: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			truth, records := log()
			tc.spoil(&truth, &records)
			rep := Check(truth, records, map[string]int32{"t": 1, "other": 1})
			require.Equal(t, len(tc.want), len(rep.Found), "%v", rep.Found)
			for k, n := range tc.want {
				require.Equal(t, n, rep.Found[k], "%s: %v", k, rep.Examples)
			}
			require.Equal(t, tc.duplicates, rep.Duplicates)
			require.Equal(t, tc.rewinds, rep.Rewinds, "%v", rep)
			require.Equal(t, len(tc.want) > 0, rep.Err() != nil)
		})
	}
}

func TestCheckSlotCatches(t *testing.T) {
	sample := func(confirmed LSN, end int64) Sample {
		return Sample{Confirmed: confirmed, Ends: map[string][]int64{"t": {end}}}
	}
	restarted := sample(150, 10)
	restarted.Server = restarted.Server.Add(1)
	for name, tc := range map[string]struct {
		samples []Sample
		want    map[Kind]int
	}{
		"nothing when each row was there": {
			[]Sample{sample(50, 0), sample(149, 0), sample(150, 2), sample(550, 10)}, nil,
		},
		"confirmation on receive": {
			[]Sample{sample(150, 2), sample(250, 3)}, map[Kind]int{Overtaken: 1},
		},
		"confirmation although all came later": {
			[]Sample{sample(550, 0), sample(550, 10)}, map[Kind]int{Overtaken: 10},
		},
		"a fall": {
			[]Sample{sample(250, 4), sample(150, 4)}, map[Kind]int{Fallen: 1},
		},
		"no fall when the server was restarted":     {[]Sample{sample(250, 4), restarted}, nil},
		"nothing confirmed":                         {[]Sample{sample(0, 4)}, map[Kind]int{Fallen: 1}},
		"nothing about moments when Kafka was away": {[]Sample{{Confirmed: 550}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			truth, records := log()
			rep := &Report{}
			CheckSlot(rep, truth, records, tc.samples)
			require.Equal(t, len(tc.want), len(rep.Found), "%v", rep.Examples)
			for k, n := range tc.want {
				require.Equal(t, n, rep.Found[k], "%v", rep.Examples)
			}
		})
	}
}

// The keys and hashes come from Kafka's own test, UtilsTest.testMurmur2.
func TestPartitionOfMatchesJavaClient(t *testing.T) {
	for key, hash := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		require.Equal(t, (hash&0x7fffffff)%1000003, JavaPartition([]byte(key), 1000003), key)
	}
}

func TestPlannerIsDeterministic(t *testing.T) {
	draw := func(seed uint64) (all []plan) {
		p := planner{rng: rand.New(rand.NewPCG(seed, 0)), kinds: []string{"a", "b"}, keys: 5, prepared: true, gids: "g"}
		for range 500 {
			all = append(all, p.next())
		}
		return all
	}
	require.Equal(t, draw(7), draw(7))
	require.NotEqual(t, draw(7), draw(8))
	shapes := map[end]int{}
	for _, tx := range draw(7) {
		shapes[tx.ends]++
	}
	require.Len(t, shapes, 4, "commits, rollbacks and both ends of prepared ones: %v", shapes)
}

func TestCheckPartsCatches(t *testing.T) {
	for name, tc := range map[string]struct {
		order []int
		spoil func(r *Record)
		want  map[Kind]int
	}{
		"nothing where keys pass each other": {order: []int{1, 3, 0, 5, 2, 4, 7, 9, 6, 8}},
		"nothing where an index is smaller": {
			order: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
			spoil: func(r *Record) { r.Position = strings.Split(r.Position, "-")[0] + "-00000000" },
		},
		"the position of another transaction": {
			order: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
			spoil: func(r *Record) { r.Position = "000000000000ffff-00000000" }, want: map[Kind]int{Corrupted: 1},
		},
		"two rows of a key swapped": {order: []int{0, 1, 4, 3, 2, 5, 6, 7, 8, 9}, want: map[Kind]int{Inverted: 1}},
		"a lost row":                {order: []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, want: map[Kind]int{Lost: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			truth, records := log()
			if tc.spoil != nil {
				tc.spoil(&records[5])
			}
			rep := CheckParts(truth, pick(records, tc.order...), map[string]int32{"t": 1})
			require.Equal(t, len(tc.want), len(rep.Found), "%v", rep.Examples)
			for k, n := range tc.want {
				require.Equal(t, n, rep.Found[k], "%v", rep.Examples)
			}
		})
	}
}

func TestCheckKeysCatches(t *testing.T) {
	for name, tc := range map[string]struct {
		order []int
		want  map[Kind]int
	}{
		"nothing where keys pass each other":  {[]int{1, 3, 0, 5, 2, 4, 7, 9, 6, 8}, nil},
		"nothing where a late copy comes":     {[]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 4}, nil},
		"two rows of a key swapped":           {[]int{0, 1, 4, 3, 2, 5, 6, 7, 8, 9}, map[Kind]int{Inverted: 1}},
		"a lost row":                          {[]int{0, 1, 2, 3, 4, 5, 6, 7, 8}, map[Kind]int{Lost: 1}},
		"first appearances after late copies": {[]int{0, 2, 0, 4, 2, 6, 8, 1, 3, 5, 9, 7}, map[Kind]int{Inverted: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			truth, records := log()
			for i := range records {
				records[i].Position = ""
			}
			rep := CheckKeys(truth, pick(records, tc.order...), map[string]int32{"t": 1})
			require.Equal(t, len(tc.want), len(rep.Found), "%v", rep.Examples)
			for k, n := range tc.want {
				require.Equal(t, n, rep.Found[k], "%v", rep.Examples)
			}
		})
	}
}
