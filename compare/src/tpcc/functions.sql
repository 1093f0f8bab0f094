-- The five transactions of TPC-C as functions in the server: each is one statement to a client. Values that are
-- answered stand in one text, with bars between them, which no text of TPC-C has.

CREATE FUNCTION tpcc_new_order(
    in_w bigint, in_d bigint, in_c bigint, in_moment bigint, in_local bigint,
    in_items text, in_supplies text, in_quantities text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    items integer[] := in_items::integer[];
    supplies integer[] := in_supplies::integer[];
    quantities integer[] := in_quantities::integer[];
    warehouse_tax integer;
    district_tax integer;
    number integer;
    discount integer;
    last_name text;
    credit text;
    price integer;
    item_name text;
    item_data text;
    left_count integer;
    stock_data text;
    info text;
    lines text := '';
    head text;
    is_unknown boolean := false;
BEGIN
    SELECT w_tax INTO STRICT warehouse_tax FROM warehouse WHERE w_id = in_w;
    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = in_w AND d_id = in_d
        RETURNING d_tax, d_next_o_id - 1 INTO STRICT district_tax, number;
    SELECT c_discount, c_last, c_credit INTO STRICT discount, last_name, credit FROM customer
        WHERE c_w_id = in_w AND c_d_id = in_d AND c_id = in_c;
    INSERT INTO orders VALUES
        (in_w, in_d, number, in_c, in_moment, NULL, cardinality(items), in_local);
    INSERT INTO new_order VALUES (in_w, in_d, number);
    FOR n IN 1 .. cardinality(items) LOOP
        SELECT i_price, i_name, i_data INTO price, item_name, item_data FROM item
            WHERE i_id = items[n];
        IF NOT FOUND THEN
            is_unknown := true;
            CONTINUE;
        END IF;
        UPDATE stock SET
            s_quantity = CASE WHEN s_quantity >= quantities[n] + 10 THEN s_quantity - quantities[n]
                         ELSE s_quantity - quantities[n] + 91 END,
            s_ytd = s_ytd + quantities[n], s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + (supplies[n] <> in_w)::integer
            WHERE s_w_id = supplies[n] AND s_i_id = items[n]
            RETURNING s_quantity, s_data, CASE in_d
                WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03
                WHEN 4 THEN s_dist_04 WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06
                WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08 WHEN 9 THEN s_dist_09
                ELSE s_dist_10 END
            INTO STRICT left_count, stock_data, info;
        INSERT INTO order_line VALUES (in_w, in_d, number, n, items[n], supplies[n], NULL,
            quantities[n], price * quantities[n], info);
        lines := lines || '|' || concat_ws('|', item_name, left_count,
            (strpos(item_data, 'ORIGINAL') > 0 AND strpos(stock_data, 'ORIGINAL') > 0)::integer,
            price, price * quantities[n]);
    END LOOP;
    head := concat_ws('|', number, last_name, credit, discount, warehouse_tax, district_tax);
    IF is_unknown THEN
        RAISE EXCEPTION USING ERRCODE = 'TPCRB', MESSAGE = head;
    END IF;
    RETURN head || lines;
END $$;

CREATE FUNCTION tpcc_customer(in_w bigint, in_d bigint, in_c bigint, in_last text)
RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    number integer;
BEGIN
    IF in_c > 0 THEN
        RETURN in_c;
    END IF;
    SELECT c_id INTO STRICT number FROM customer
        WHERE c_w_id = in_w AND c_d_id = in_d AND c_last = in_last
        ORDER BY c_first, c_id LIMIT 1 OFFSET
            (SELECT (count(*) + 1) / 2 - 1 FROM customer
             WHERE c_w_id = in_w AND c_d_id = in_d AND c_last = in_last);
    RETURN number;
END $$;

CREATE FUNCTION tpcc_payment(
    in_w bigint, in_d bigint, in_c_w bigint, in_c_d bigint, in_c bigint, in_last text,
    in_amount bigint, in_moment bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    number bigint := tpcc_customer(in_c_w, in_c_d, in_c, in_last);
    w warehouse%ROWTYPE;
    d district%ROWTYPE;
    c customer%ROWTYPE;
BEGIN
    UPDATE warehouse SET w_ytd = w_ytd + in_amount WHERE w_id = in_w RETURNING * INTO STRICT w;
    UPDATE district SET d_ytd = d_ytd + in_amount WHERE d_w_id = in_w AND d_id = in_d
        RETURNING * INTO STRICT d;
    UPDATE customer SET c_balance = c_balance - in_amount,
        c_ytd_payment = c_ytd_payment + in_amount, c_payment_cnt = c_payment_cnt + 1,
        c_data = CASE c_credit WHEN 'BC' THEN
            substr(concat(number, ' ', in_c_d, ' ', in_c_w, ' ', in_d, ' ', in_w, ' ',
                in_amount / 100, '.', lpad((in_amount % 100)::text, 2, '0'), ' ', c_data), 1, 500)
            ELSE c_data END
        WHERE c_w_id = in_c_w AND c_d_id = in_c_d AND c_id = number RETURNING * INTO STRICT c;
    INSERT INTO history VALUES (in_c_w, in_c_d, number, in_w, in_d, in_moment, in_amount,
        w.w_name || '    ' || d.d_name);
    RETURN concat_ws('|', number,
        w.w_name, w.w_street_1, w.w_street_2, w.w_city, w.w_state, w.w_zip,
        d.d_name, d.d_street_1, d.d_street_2, d.d_city, d.d_state, d.d_zip,
        c.c_first, c.c_middle, c.c_last, c.c_street_1, c.c_street_2, c.c_city, c.c_state, c.c_zip,
        c.c_phone, c.c_since, c.c_credit, c.c_credit_lim, c.c_discount, c.c_balance,
        substr(c.c_data, 1, 200));
END $$;

CREATE FUNCTION tpcc_order_status(in_w bigint, in_d bigint, in_c bigint, in_last text)
RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    number bigint := tpcc_customer(in_w, in_d, in_c, in_last);
    asking text;
    ordered text;
    id integer;
    lines text;
BEGIN
    SELECT concat_ws('|', c_first, c_middle, c_last, c_balance) INTO STRICT asking FROM customer
        WHERE c_w_id = in_w AND c_d_id = in_d AND c_id = number;
    SELECT o_id, concat_ws('|', o_id, o_entry_d, coalesce(o_carrier_id::text, ''))
        INTO STRICT id, ordered FROM orders
        WHERE o_w_id = in_w AND o_d_id = in_d AND o_c_id = number ORDER BY o_id DESC LIMIT 1;
    SELECT string_agg(concat_ws('|', ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
        coalesce(ol_delivery_d::text, '')), '|' ORDER BY ol_number) INTO lines FROM order_line
        WHERE ol_w_id = in_w AND ol_d_id = in_d AND ol_o_id = id;
    RETURN concat_ws('|', number, asking, ordered, lines);
END $$;

CREATE FUNCTION tpcc_delivery(in_w bigint, in_carrier bigint, in_moment bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    number integer;
    customer_number integer;
    total bigint;
    answer text[];
BEGIN
    FOR district_number IN 1 .. 10 LOOP
        SELECT min(no_o_id) INTO number FROM new_order
            WHERE no_w_id = in_w AND no_d_id = district_number;
        answer := answer || coalesce(number::text, '');
        CONTINUE WHEN number IS NULL;
        DELETE FROM new_order
            WHERE no_w_id = in_w AND no_d_id = district_number AND no_o_id = number;
        UPDATE orders SET o_carrier_id = in_carrier
            WHERE o_w_id = in_w AND o_d_id = district_number AND o_id = number
            RETURNING o_c_id INTO STRICT customer_number;
        WITH delivered AS (UPDATE order_line SET ol_delivery_d = in_moment
            WHERE ol_w_id = in_w AND ol_d_id = district_number AND ol_o_id = number
            RETURNING ol_amount)
        SELECT sum(ol_amount) INTO total FROM delivered;
        UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1, c_balance = c_balance + total
            WHERE c_w_id = in_w AND c_d_id = district_number AND c_id = customer_number;
    END LOOP;
    RETURN array_to_string(answer, '|');
END $$;

CREATE FUNCTION tpcc_stock_level(in_w bigint, in_d bigint, in_threshold bigint)
RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    next_number integer;
    low_count bigint;
BEGIN
    SELECT d_next_o_id INTO STRICT next_number FROM district WHERE d_w_id = in_w AND d_id = in_d;
    SELECT count(DISTINCT s_i_id) INTO low_count FROM order_line
        JOIN stock ON s_w_id = in_w AND s_i_id = ol_i_id
        WHERE ol_w_id = in_w AND ol_d_id = in_d AND ol_o_id >= next_number - 20
            AND ol_o_id < next_number AND s_quantity < in_threshold;
    RETURN low_count::text;
END $$;
