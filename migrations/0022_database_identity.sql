-- Which database this is, among all that there are: in notes of folders that services share which
-- share no database. Those that were made of a dump of this one are others, as far as the server says
-- which it is. Not every server lets its users ask; there it is a word of the schema, which a copy has
-- as well. It is asked as the owner, so that all who work here get the same answer.
DO $$
BEGIN
    EXECUTE format($function$
        CREATE FUNCTION database_identity() RETURNS text
        LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = %1$I, pg_temp AS $body$
        DECLARE
            server text;
        BEGIN
            BEGIN
                server := (SELECT system_identifier::text FROM pg_control_system());
            EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported THEN
                server := %2$L;
            END;
            RETURN server || '/' || (SELECT oid FROM pg_database WHERE datname = current_database());
        END
        $body$;
        $function$, current_schema(), gen_random_uuid());
END
$$;
REVOKE EXECUTE ON FUNCTION database_identity FROM PUBLIC;
GRANT EXECUTE ON FUNCTION database_identity TO twostep_service, twostep_tenant;
