package slotmonitor

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// calm is for how long a slot has to be better before that counts: sizes move to and fro around a threshold.
	calm = time.Minute
	// repeat is after how long an alert that still fires is logged again.
	repeat = time.Hour
)

// notice is something worth a log line.
type notice struct {
	slot     Slot
	level    Level // the level that counts, which may lag behind slot.Level on the way down
	repeated bool
	gone     bool // the slot does not exist any more
}

// notifier decides what is logged: each change, at once when it gets worse, after a calm minute when it gets better,
// and hourly what stays. It is pure; time comes with the slots.
type notifier struct {
	slots map[string]*noticed
}

type noticed struct {
	level    Level
	logged   time.Time
	worstAt  time.Time // when the level that counts was last reached
	lastSlot Slot
}

func newNotifier() *notifier { return &notifier{slots: map[string]*noticed{}} }

func (n *notifier) add(slots []Slot, now time.Time) []notice {
	var out []notice
	present := map[string]bool{}
	for _, s := range slots {
		present[s.Name] = true
		was := n.slots[s.Name]
		if was == nil {
			was = &noticed{worstAt: now, logged: now}
			n.slots[s.Name] = was
		}
		was.lastSlot = s
		if s.Level >= was.level {
			was.worstAt = now
		}
		switch {
		case s.Level > was.level, s.Level < was.level && now.Sub(was.worstAt) >= calm:
			was.level, was.logged, was.worstAt = s.Level, now, now
			out = append(out, notice{slot: s, level: s.Level})
		case was.level > OK && now.Sub(was.logged) >= repeat:
			was.logged = now
			out = append(out, notice{slot: s, level: was.level, repeated: true})
		}
	}
	for name, was := range n.slots {
		if !present[name] {
			out = append(out, notice{slot: was.lastSlot, gone: true})
			delete(n.slots, name)
		}
	}
	return out
}

func (n notice) log(l *zap.Logger) {
	s := n.slot
	fields := []zap.Field{zap.String("slot", s.Name), zap.Stringer("alert_level", n.level), zap.String("wal_status", s.WALStatus),
		zap.Int64("retained", s.RetainedBytes), zap.Int64("unconfirmed", s.UnconfirmedBytes)}
	if s.SecondsToLimit != nil {
		fields = append(fields, zap.Float64("seconds_to_limit", *s.SecondsToLimit))
	}
	if len(s.Alerts) > 0 {
		fields = append(fields, zap.String("alert", s.Alerts[0].Rule), zap.String("sentence", s.Alerts[0].Sentence))
	}
	if s.Cause != "" {
		fields = append(fields, zap.String("reason", s.Cause))
	}
	sentence, at := "slot holds back too much log", zapcore.WarnLevel
	switch {
	case n.gone:
		sentence = "slot does not exist any more"
	case n.level == OK:
		sentence, at = "slot is well again", zapcore.InfoLevel
	case s.WALStatus == WALLost:
		sentence, at = "slot is lost", zapcore.ErrorLevel
	case n.level == Critical:
		at = zapcore.ErrorLevel
	}
	l.Log(at, sentence, fields...)
}
