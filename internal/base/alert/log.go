package alert

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
)

// Log writes the event.
func (e Event) Log(l *zap.Logger) {
	fields := []zap.Field{
		zap.String(logkey.Alert, e.Alert), zap.Stringer(logkey.AlertLevel, e.Level), zap.Time(logkey.Since, e.Since),
	}
	if e.Subject != "" {
		fields = append(fields, zap.String(logkey.Slot, e.Subject))
	}
	if e.Figures != nil {
		fields = append(fields, e.Figures.LogFields()...)
	}
	fields = append(fields, zap.String(logkey.Sentence, e.Sentence))
	if e.Cause.Code != "" {
		fields = append(fields, zap.String(logkey.Reason, e.Cause.Code),
			zap.String(logkey.AlertCause, e.Cause.Sentence))
	}
	if e.Cause.Next != "" && e.State == Firing {
		fields = append(fields, zap.String(logkey.Next, e.Cause.Next))
	}
	if len(e.Cause.Commands) > 0 && e.State == Firing {
		fields = append(fields, zap.Strings(logkey.Commands, e.Cause.Commands))
	}
	at := zapcore.WarnLevel
	if e.Level == Critical {
		at = zapcore.ErrorLevel
	}
	switch {
	case e.SupersededBy != "":
		l.Info("alert is superseded by a worse one", append(fields, zap.String(logkey.SupersededBy, e.SupersededBy))...)
	case e.State == Resolved:
		l.Info("alert is resolved", fields...)
	case e.Repeated:
		l.Log(at, "alert still fires", fields...)
	default:
		l.Log(at, "alert fires", fields...)
	}
}
