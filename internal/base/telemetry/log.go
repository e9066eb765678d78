package telemetry

import (
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// Log formats.
const (
	FormatJSON    = "json"
	FormatConsole = "console"
	FormatAuto    = "auto" // the command chooses one of the others
)

// NewLogger writes lines of the given format ("json" or "console") to w, from the given level ("debug", "info", "warn",
// "error") upwards. Nothing is sampled: each line of this program is about a state that changed, and a line that was
// dropped may be the line that says why the slot stopped. The caller owns w and calls Sync before the process ends.
func NewLogger(w io.Writer, level, format string) (*zap.Logger, error) {
	lvl, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("log level %q: want debug, info, warn or error", level)
	}
	enc := zapcore.EncoderConfig{
		TimeKey:     "ts",
		LevelKey:    "level",
		NameKey:     "logger",
		MessageKey:  "msg",
		LineEnding:  zapcore.DefaultLineEnding,
		EncodeLevel: zapcore.LowercaseLevelEncoder,
		EncodeTime: func(t time.Time, e zapcore.PrimitiveArrayEncoder) {
			e.AppendString(t.UTC().Format("2006-01-02T15:04:05.000Z"))
		},
		EncodeDuration: zapcore.StringDurationEncoder,
		EncodeName:     zapcore.FullNameEncoder,
	}
	var encoder zapcore.Encoder
	switch format {
	case FormatJSON:
		encoder = zapcore.NewJSONEncoder(enc)
	case FormatConsole:
		encoder = zapcore.NewConsoleEncoder(enc)
	default:
		return nil, fmt.Errorf("log format %q: want %s or %s", format, FormatJSON, FormatConsole)
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(fault.Escaping{W: w})), lvl)
	return zap.New(core, zap.ErrorOutput(zapcore.AddSync(w))), nil
}
