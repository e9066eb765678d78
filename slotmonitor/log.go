package slotmonitor

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func (e Event) log(l *zap.Logger) {
	fields := []zap.Field{zap.String("alert", e.Alert), zap.Stringer("alert_level", e.Level), zap.Time("since", e.Since)}
	if e.Slot != "" {
		fields = append(fields, zap.String("slot", e.Slot))
	}
	if s := e.Figures; s != nil {
		fields = append(fields, zap.String("wal_status", s.WALStatus), zap.Int64("retained", s.RetainedBytes), zap.Int64("unconfirmed", s.UnconfirmedBytes))
		if s.SecondsToLimit != nil {
			fields = append(fields, zap.Float64("seconds_to_limit", *s.SecondsToLimit))
		}
		if s.SecondsToFull != nil {
			fields = append(fields, zap.Float64("seconds_to_full", *s.SecondsToFull))
		}
	}
	fields = append(fields, zap.String("sentence", e.Sentence))
	if e.Cause.Code != "" {
		fields = append(fields, zap.String("reason", e.Cause.Code), zap.String("cause", e.Cause.Sentence))
	}
	if e.Cause.Next != "" && e.State == Firing {
		fields = append(fields, zap.String("next", e.Cause.Next))
	}
	at := zapcore.WarnLevel
	if e.Level == Critical {
		at = zapcore.ErrorLevel
	}
	switch {
	case e.SupersededBy != "":
		l.Info("Alert is superseded by a worse one", append(fields, zap.String("superseded_by", e.SupersededBy))...)
	case e.State == Resolved:
		l.Info("Alert is resolved", fields...)
	case e.Repeated:
		l.Log(at, "Alert still fires", fields...)
	default:
		l.Log(at, "Alert fires", fields...)
	}
}
