// The load of go-sql-driver: load HOST PORT USER PASSWORD
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const large = 20_000_000

func main() {
	if err := load(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func load(host, port, user, password string) error {
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", net.JoinHostPort(host, port)
	config.User, config.Passwd, config.DBName = user, password, "shop"
	config.MaxAllowedPacket = 64 << 20
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	ctx := context.Background()
	// One session, as with the other clients.
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	table := "`" + user + "`"
	if _, err := conn.ExecContext(ctx, "SELECT 'text', 1"); err != nil {
		return err
	}
	create := "CREATE TABLE " + table + " (id INT PRIMARY KEY, v LONGTEXT, f DOUBLE)"
	if _, err := conn.ExecContext(ctx, create); err != nil {
		return err
	}
	if err := transactions(ctx, conn, table); err != nil {
		return err
	}
	if err := failures(ctx, conn, table); err != nil {
		return err
	}
	var text string
	query := fmt.Sprintf("SELECT REPEAT('x', %d)", large)
	if err := conn.QueryRowContext(ctx, query).Scan(&text); err != nil {
		return err
	}
	if len(text) != large {
		return fmt.Errorf("%d bytes", len(text))
	}
	insert := "INSERT INTO " + table + " (id, v) VALUES (3, ?)"
	if _, err := conn.ExecContext(ctx, insert, strings.Repeat("y", large)); err != nil {
		return err
	}
	return conn.PingContext(ctx)
}

func transactions(ctx context.Context, conn *sql.Conn, table string) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	insert, err := tx.PrepareContext(ctx, "INSERT INTO "+table+" (id, v, f) VALUES (?, ?, ?)")
	if err != nil {
		return err
	}
	if _, err := insert.ExecContext(ctx, 1, "ä€😀", 0.5); err != nil {
		return err
	}
	if _, err := insert.ExecContext(ctx, 2, nil, nil); err != nil {
		return err
	}
	if err := insert.Close(); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	var count int
	query := "SELECT COUNT(*) FROM " + table + " WHERE id > ? AND ? > '2000-01-01'"
	row := conn.QueryRowContext(ctx, query, 0, time.Unix(1_700_000_000, 123_000).UTC())
	if err := row.Scan(&count); err != nil {
		return err
	}
	if count != 2 {
		return fmt.Errorf("%d rows", count)
	}
	if tx, err = conn.BeginTx(ctx, nil); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM "+table); err != nil {
		return err
	}
	return tx.Rollback()
}

func failures(ctx context.Context, conn *sql.Conn, table string) error {
	for _, try := range []struct {
		errno uint16
		sql   string
		args  []any
	}{
		{1054, "SELECT nosuch FROM " + table, nil},
		{1146, "SELECT nosuch FROM nowhere WHERE id = ?", []any{1}},
		{1062, "INSERT INTO " + table + " (id) VALUES (?)", []any{1}},
	} {
		_, err := conn.ExecContext(ctx, try.sql, try.args...)
		var failure *mysql.MySQLError
		if !errors.As(err, &failure) || failure.Number != try.errno {
			return fmt.Errorf("%s: %w", try.sql, err)
		}
	}
	return nil
}
