-- Tachograph, rules that rewrite, for MySQL 9.7 and 8.0: the table of the rules, and the procedure
-- that puts them in force. Run it once, with an account that may create a database:
--
--     mysql -u root -p < rewrite_rules.sql
--
-- You may run it again; it changes no rule. Run it before the recorder is installed if the log's
-- directory is to be <datadir>/tacho: MySQL cannot create a database whose directory exists. The
-- guide: docs/guide/rewrite.md.

SET @tacho_sql_mode = @@SESSION.sql_mode;
SET SESSION sql_mode = 'STRICT_ALL_TABLES';

CREATE DATABASE IF NOT EXISTS tacho DEFAULT CHARACTER SET utf8mb4;

-- The columns of MySQL's own query_rewrite.rewrite_rules; the last three are written by the
-- procedure.
CREATE TABLE IF NOT EXISTS tacho.rewrite_rules (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    pattern VARCHAR(5000) NOT NULL,
    pattern_database VARCHAR(64),
    replacement VARCHAR(5000) NOT NULL,
    enabled ENUM('YES', 'NO') NOT NULL DEFAULT 'YES',
    message VARCHAR(1000),
    pattern_digest VARCHAR(64),
    normalized_pattern TEXT
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

DROP PROCEDURE IF EXISTS tacho.load_rewrite_rules;

DELIMITER //

CREATE PROCEDURE tacho.load_rewrite_rules()
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
    COMMENT 'Puts the enabled rules of tacho.rewrite_rules in force, in the place of those before'
BEGIN
    DECLARE enabled_count, loaded_count BIGINT;
    DECLARE answer JSON;
    DECLARE told VARCHAR(128);
    DECLARE turn BIGINT;
    -- A missing function (ER_SP_DOES_NOT_EXIST), which the session caches.
    DECLARE EXIT HANDLER FOR 1305
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the rules were not loaded: the recorder is not installed, or older than this procedure; install it, then connect anew';
    -- Reads the current rows, not those in the snapshot of an open transaction.
    COMMIT AND NO CHAIN NO RELEASE;
    -- Each load has a number, and reads the rules after it has got it. If a load with a higher number
    -- was faster, this one changes nothing, and reads them again: so the rules of the newest load are
    -- in force. No lock is needed for that, which a session could keep.
    REPEAT
        SET turn = tacho_rewrite_turn();
        -- Rows in the order of their ids: the first rule that matches counts.
        SELECT COUNT(*), tacho_rewrite_load(id, pattern, pattern_database, replacement, turn)
            INTO enabled_count, answer
            FROM tacho.rewrite_rules FORCE INDEX (PRIMARY)
            WHERE enabled = 'YES';
        -- Without autocommit that has begun a transaction.
        COMMIT AND NO CHAIN NO RELEASE;
    UNTIL NOT COALESCE(JSON_CONTAINS_PATH(answer, 'one', '$.superseded'), FALSE) END REPEAT;
    SET loaded_count = JSON_EXTRACT(answer, '$.loaded');
    IF loaded_count IS NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the rules were not loaded: the recorder is not there';
    END IF;
    -- On a replica nothing is written. Rows that stay as they are are not written either.
    IF NOT (@@GLOBAL.read_only OR @@GLOBAL.innodb_read_only OR @@SESSION.transaction_read_only) THEN
        -- Not into the binary log: the result concerns this server, and a server that replays it
        -- may have no recorder.
        BEGIN
            DECLARE was_logged BOOLEAN DEFAULT @@SESSION.sql_log_bin;
            DECLARE EXIT HANDLER FOR SQLEXCEPTION
            BEGIN
                ROLLBACK AND NO CHAIN NO RELEASE;
                SET SESSION sql_log_bin = was_logged;
                RESIGNAL;
            END;
            SET SESSION sql_log_bin = 0;
            -- The range covers all ids: with sql_safe_updates there must be one. A load that
            -- another one has replaced meanwhile returns nothing: the other one does.
            UPDATE tacho.rewrite_rules
                SET message = LEFT(JSON_UNQUOTE(JSON_EXTRACT(answer, CONCAT('$.left_out."', id, '"'))), 1000),
                    pattern_digest = tacho_rewrite_digest(pattern),
                    normalized_pattern = tacho_rewrite_normalized(pattern)
                WHERE enabled = 'YES' AND id BETWEEN 0 AND 4294967295 AND tacho_rewrite_turn(turn);
            COMMIT AND NO CHAIN NO RELEASE;
            SET SESSION sql_log_bin = was_logged;
        END;
    END IF;
    IF loaded_count < enabled_count THEN
        SET told = CONCAT(enabled_count - loaded_count, ' of ', enabled_count,
            ' rules are wrong and not in force: see the column message of tacho.rewrite_rules');
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = told;
    END IF;
END//

DELIMITER ;

SET SESSION sql_mode = @tacho_sql_mode;
